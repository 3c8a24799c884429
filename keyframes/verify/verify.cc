#include "keyframes/verify/verify.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "keyframes/replay/segment_replay.h"
#include "keyframes/verify/live_ring.h"
#include "keyframes/verify/verify_claims.h"
#include "keyframes/verify/verify_findings.h"
#include "keyframes/verify/verify_order.h"
#include "keyframes/verify/verify_segment.h"
#include "keyframes/verify/verify_totals.h"

namespace hindsight {
namespace {

constexpr std::chrono::milliseconds kProgressInterval{100};
constexpr std::chrono::milliseconds kInterruptInterval{20};
// States between two polls of the interrupt flag and updates of the progress.
constexpr uint64_t kSliceStates = 4'000'000;

// Signals delivered on the way to state `count`.
uint64_t SignalsBefore(uint64_t count, const std::vector<Record>& records) {
  return std::count_if(records.begin(), records.end(), [count](const Record& record) {
    const auto* moved = std::get_if<Discontinuity>(&record.body);
    return moved != nullptr && moved->kind == DiscontinuityKind::kSignal && record.count < count;
  });
}

// The segments to do, and what was found; shared by the workers.
class Work {
 public:
  Work(const TraceReader& trace, std::vector<SegmentInfo> segments)
      : trace_(trace), segments_(std::move(segments)), claims_(trace) {}

  // Does segments until none is left or Cancel was called.
  void RunWorker();
  void Cancel() { cancelled_ = true; }
  // False while work goes on; waits at most `timeout`.
  bool WaitDone(std::chrono::milliseconds timeout);
  VerifyProgress progress();
  void FillIn(VerifyResult* result);
  absl::Status setup_error();
  // When all segments are done: what concerns the whole process.
  absl::Status CheckProcess();

 private:
  // Checks one segment; `checked` is where it got to.
  absl::Status Check(SegmentReplay& replay, size_t index, uint64_t* checked);
  absl::Status Advance(SegmentReplay& replay, uint64_t target, uint64_t* checked);
  absl::Status CheckContinuation(const Segment& segment, size_t index, uint64_t* checked);

  const TraceReader& trace_;
  const std::vector<SegmentInfo> segments_;
  std::atomic<bool> cancelled_{false};
  std::atomic<size_t> next_{0};
  std::atomic<uint64_t> states_{0};
  std::atomic<uint64_t> signals_{0};
  std::atomic<uint64_t> checks_{0};
  OrderCheck order_;
  const TraceClaims claims_;
  VerifyFindings findings_;

  std::mutex mutex_;
  std::condition_variable done_changed_;
  uint64_t done_ = 0;
  absl::Status setup_error_;
};

void Work::RunWorker() {
  auto replay = SegmentReplay::Create(&trace_);
  if (!replay.ok()) {
    std::lock_guard<std::mutex> lock(mutex_);
    setup_error_ = replay.status();
    cancelled_ = true;
    return;
  }
  for (size_t index = next_++; index < segments_.size() && !cancelled_; index = next_++) {
    uint64_t checked = segments_[index].first_count;
    const uint64_t checks_before = (*replay)->checks();
    absl::Status status = Check(**replay, index, &checked);
    checks_ += (*replay)->checks() - checks_before;
    if (!status.ok() && !absl::IsCancelled(status) && !HasGone(trace_, status)) {
      findings_.AddDifference(checked, std::move(status));
    }
    std::lock_guard<std::mutex> lock(mutex_);
    ++done_;
    done_changed_.notify_all();
  }
}

absl::Status Work::Advance(SegmentReplay& replay, uint64_t target, uint64_t* checked) {
  absl::Status status;
  while (status.ok() && replay.count() < target) {
    if (cancelled_) return absl::CancelledError("interrupted");
    const uint64_t before = replay.count();
    status = replay.AdvanceTo(std::min(target, before + kSliceStates));
    if (status.ok()) states_ += replay.count() - before;
    *checked = replay.count();
  }
  return status;
}

absl::Status Work::Check(SegmentReplay& replay, size_t index, uint64_t* checked) {
  ASSIGN_OR_RETURN(std::shared_ptr<const Segment> segment,
                   trace_.LoadSegment(segments_[index].thread, segments_[index].number));
  RETURN_IF_ERROR(replay.Load(segment));
  SegmentCheck check(&trace_, &claims_, &replay,
                     [&](uint64_t target) { return Advance(replay, target, checked); });
  const absl::Status status = check.Run();
  signals_ += SignalsBefore(*checked, segment->records());
  findings_.AddSegment(*segment, check);
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(segment->damage());
  RETURN_IF_ERROR(order_.AddSegment(*segment));
  return CheckContinuation(*segment, index, checked);
}

absl::Status Work::CheckProcess() {
  const bool all_read = findings_.segments_failed() == 0;
  // Else records of segments that could not be read would be called missing.
  if (all_read && ReasonForNoTotals(trace_.manifest()).empty()) {
    RETURN_IF_ERROR(CheckTotals(trace_, findings_.contents()));
  }
  RETURN_IF_ERROR(order_.CheckProcess(trace_));
  return all_read ? claims_.CheckProcess(findings_.ends()) : absl::OkStatus();
}

// The next segment of the thread must begin where this one ended.
absl::Status Work::CheckContinuation(const Segment& segment, size_t index, uint64_t* checked) {
  if (index + 1 >= segments_.size() || segments_[index + 1].thread != segments_[index].thread) {
    return absl::OkStatus();
  }
  const SegmentInfo& next = segments_[index + 1];
  const bool gap =
      !segment.records().empty() && std::holds_alternative<Gap>(segment.records().back().body);
  if (gap) return absl::OkStatus();
  if (segment.end_registers() == nullptr) {
    return absl::DataLossError(
        absl::StrCat(segment.info().path, ": the segment is not ended, but another follows"));
  }
  ASSIGN_OR_RETURN(std::shared_ptr<const Segment> following,
                   trace_.LoadSegment(next.thread, next.number));
  ++checks_;
  if (next.first_count == segment.end_count() &&
      following->registers() == *segment.end_registers()) {
    return absl::OkStatus();
  }
  *checked = segment.end_count();
  return absl::DataLossError(absl::StrCat(
      next.path,
      ": the segment does not begin in the state in which the one before it ended (count ",
      next.first_count, " after ", segment.end_count(), ", registers ",
      following->registers() == *segment.end_registers() ? "equal)" : "different)"));
}

bool Work::WaitDone(std::chrono::milliseconds timeout) {
  std::unique_lock<std::mutex> lock(mutex_);
  return done_changed_.wait_for(lock, timeout,
                                [&] { return cancelled_ || done_ == segments_.size(); });
}

VerifyProgress Work::progress() {
  std::lock_guard<std::mutex> lock(mutex_);
  return {done_, segments_.size(), states_};
}

absl::Status Work::setup_error() {
  std::lock_guard<std::mutex> lock(mutex_);
  return setup_error_;
}

void Work::FillIn(VerifyResult* result) {
  std::lock_guard<std::mutex> lock(mutex_);
  result->segments = done_;
  result->segments_failed = findings_.segments_failed();
  result->states = states_;
  result->signals = signals_;
  result->checks = checks_;
  result->order_numbers = order_.numbers();
  result->counts = findings_.counts();
  if (absl::Status first = findings_.FirstDifference(); !first.ok()) {
    result->difference = std::move(first);
  }
}

absl::Status CheckMap(const TraceReader& trace, const std::vector<MapRegion>& map,
                      const std::string& where) {
  for (const MapRegion& region : map) {
    if (region.module < 0 || trace.modules().contains(region.module)) continue;
    return absl::DataLossError(absl::StrCat(trace.directory(), ": the mapping at 0x",
                                            absl::Hex(region.start), " ", where,
                                            " is of a module not listed"));
  }
  return absl::OkStatus();
}

// What replay of the segments does not read.
absl::Status CheckFiles(const TraceReader& trace, VerifyCounts* counts) {
  for (const auto& keyframe : trace.full_keyframes()) {
    const std::string where = absl::StrCat("in full keyframe ", keyframe->number());
    RETURN_IF_ERROR(CheckMap(trace, keyframe->maps(), where));
    const absl::Status checked = keyframe->CheckFile();
    if (HasGone(trace, checked)) continue;
    RETURN_IF_ERROR(checked);
    ++counts->full_keyframes;
    counts->keyframe_pages += keyframe->page_count();
  }
  for (const ProcessEvent& event : trace.events()) {
    RETURN_IF_ERROR(CheckMap(trace, event.maps, absl::StrCat("at event ", event.sequence)));
  }
  for (const auto& [index, module] : trace.modules()) {
    if (!module.stored) {
      ++counts->modules_not_stored;
      continue;
    }
    const absl::Status checked = trace.ModuleBytes(index).status();
    if (HasGone(trace, checked)) continue;
    RETURN_IF_ERROR(checked);
    ++counts->modules;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<VerifyResult> Verify(const TraceReader& trace, const VerifyOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<SegmentInfo> segments;
  for (int32_t thread : trace.threads()) {
    const std::vector<SegmentInfo>& of_thread = trace.segments(thread);
    segments.insert(segments.end(), of_thread.begin(), of_thread.end());
  }
  if (segments.empty()) {
    return absl::NotFoundError(absl::StrCat(trace.directory(), ": the trace has no segments"));
  }
  const size_t wanted =
      options.host_threads > 0 ? options.host_threads : std::thread::hardware_concurrency();
  const size_t workers = std::clamp<size_t>(wanted, 1, segments.size());
  Work work(trace, std::move(segments));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < workers; ++i) threads.emplace_back([&work] { work.RunWorker(); });

  bool interrupted = false;
  auto next_progress = start + kProgressInterval;
  while (!work.WaitDone(kInterruptInterval)) {
    if (options.interrupt != nullptr && options.interrupt->load()) {
      interrupted = true;
      work.Cancel();
    }
    if (options.progress && std::chrono::steady_clock::now() >= next_progress) {
      options.progress(work.progress());
      next_progress += kProgressInterval;
    }
  }
  for (std::thread& thread : threads) thread.join();
  RETURN_IF_ERROR(work.setup_error());
  if (interrupted) return absl::CancelledError("verification was interrupted");
  VerifyResult result;
  const absl::Status process = work.CheckProcess();
  work.FillIn(&result);
  result.difference.Update(process);
  // What could not be read was not found to be exact.
  for (const absl::Status& damage : trace.damage()) result.difference.Update(damage);
  result.difference.Update(CheckFiles(trace, &result.counts));
  result.no_totals = ReasonForNoTotals(trace.manifest());
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

std::vector<std::string> Unchecked(const VerifyResult& result) {
  std::vector<std::string> lines;
  const VerifyCounts& counts = result.counts;
  const auto note = [&](const auto&... parts) { lines.push_back(absl::StrCat(parts...)); };
  if (!result.no_totals.empty()) note("the end: ", result.no_totals);
  if (counts.memory_ranges == 0) note("contents of memory: no hashes of memory that replay knows");
  if (counts.memory_ranges_unknown != 0) {
    note(counts.memory_ranges_unknown,
         " ranges of memory handed to system calls: their thread did not have them in view");
  }
  const uint64_t known = counts.keyframe_pages_equal + counts.keyframe_pages_unsure;
  if (counts.keyframe_pages > known) {
    note(counts.keyframe_pages - known, " of ", counts.keyframe_pages,
         " pages in full keyframes: the thread that ran did not know what they held");
  }
  if (counts.keyframe_pages_unsure != 0) {
    note(counts.keyframe_pages_unsure, " of ", counts.keyframe_pages,
         " pages in full keyframes: the kernel, in a system call of another thread, or another "
         "process could write to them");
  }
  if (counts.modules_not_stored != 0) {
    note(counts.modules_not_stored, " mapped files: their bytes are not in the trace");
  }
  return lines;
}

absl::Status CheckChildren(const TraceReader& parent, const std::vector<ProcessInfo>& processes) {
  // Of a ring, traces of processes that have ended may be gone.
  if (!parent.manifest().ring.empty()) return absl::OkStatus();
  for (const ProcessEvent& fork : parent.events()) {
    const bool recorded =
        fork.kind == EventKind::kFork && fork.arguments.size() > 1 && fork.arguments[1] == 1;
    if (!recorded) continue;
    const bool there =
        std::any_of(processes.begin(), processes.end(), [&](const ProcessInfo& process) {
          const Manifest& child = process.manifest;
          return child.pid == fork.result && child.parent_pid == parent.manifest().pid &&
                 child.parent_thread == fork.thread && child.parent_count + 1 == fork.count;
        });
    if (there) continue;
    return absl::DataLossError(absl::StrCat(
        parent.directory(), "/events: process ", fork.result, ", made by thread ", fork.thread,
        " at count ", fork.count, ", was recorded, but is not in the recording"));
  }
  return absl::OkStatus();
}

}  // namespace hindsight
