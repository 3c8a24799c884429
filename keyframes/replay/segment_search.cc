#include "keyframes/replay/segment_search.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <variant>

#include "base/status_macros.h"

namespace hindsight {
namespace {

constexpr std::chrono::milliseconds kInterruptInterval{20};
// Segments searched ahead of the one whose result is wanted next, per host thread: more would be
// wasted when a hit is found.
constexpr uint64_t kAhead = 2;

// Replays one segment with hits noted.
absl::StatusOr<SegmentHits> SearchOne(const TraceReader* trace, uint64_t number,
                                      const SegmentSearch::Request& request, SegmentReplay* replay,
                                      const std::atomic<bool>* cancelled) {
  ASSIGN_OR_RETURN(std::shared_ptr<const Segment> segment,
                   trace->LoadSegment(request.thread, number));
  SegmentHits hits;
  hits.number = number;
  hits.first_count = segment->info().first_count;
  hits.end_count = segment->end_count();
  replay->SetStops(*request.breakpoints, *request.watchpoints);
  RETURN_IF_ERROR(replay->Load(segment));
  hits.trace.unknown = WatchedAtStart(*trace, *replay, *request.watchpoints);
  RETURN_IF_ERROR(replay->AdvanceNoting(hits.end_count, &hits.trace, cancelled));
  hits.endings = WatchedBytes(*replay, *request.watchpoints);
  return hits;
}

// How many segments a request names.
uint64_t Length(const SegmentSearch::Request& request) {
  return std::max(request.from, request.to) - std::min(request.from, request.to) + 1;
}

// What the workers share. Results are taken in order of `index`: 0 is the segment `from`.
class Work {
 public:
  Work(const TraceReader* trace, const SegmentSearch::Request& request, uint64_t workers)
      : trace_(trace), request_(request), ahead_(workers * kAhead), results_(Length(request)) {}

  void RunWorker(SegmentReplay* replay);
  void Cancel();
  // Waits for result `index`; nullopt if interrupted.
  std::optional<absl::StatusOr<SegmentHits>> Take(uint64_t index);
  uint64_t size() const { return results_.size(); }

 private:
  const TraceReader* const trace_;
  const SegmentSearch::Request& request_;
  const uint64_t ahead_;
  std::atomic<bool> cancelled_{false};

  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t next_ = 0;   // to be searched
  uint64_t taken_ = 0;  // results taken
  std::vector<std::optional<absl::StatusOr<SegmentHits>>> results_;
};

void Work::RunWorker(SegmentReplay* replay) {
  for (;;) {
    uint64_t index = 0;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(
          lock, [&] { return cancelled_ || next_ >= results_.size() || next_ < taken_ + ahead_; });
      if (cancelled_ || next_ >= results_.size()) return;
      index = next_++;
    }
    const uint64_t number =
        request_.from <= request_.to ? request_.from + index : request_.from - index;
    auto hits = SearchOne(trace_, number, request_, replay, &cancelled_);
    std::lock_guard<std::mutex> lock(mutex_);
    results_[index] = std::move(hits);
    changed_.notify_all();
  }
}

void Work::Cancel() {
  std::lock_guard<std::mutex> lock(mutex_);
  cancelled_ = true;
  changed_.notify_all();
}

std::optional<absl::StatusOr<SegmentHits>> Work::Take(uint64_t index) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!results_[index].has_value()) {
    changed_.wait_for(lock, kInterruptInterval);
    if (request_.interrupt != nullptr && request_.interrupt->load()) return std::nullopt;
  }
  auto result = std::exchange(results_[index], std::nullopt);
  taken_ = index + 1;
  changed_.notify_all();
  return result;
}

}  // namespace

std::vector<WatchedImport> WatchedBytes(const SegmentReplay& replay,
                                        const std::vector<Watchpoint>& watchpoints) {
  std::vector<WatchedImport> endings;
  for (size_t i = 0; i < watchpoints.size(); ++i) {
    if (!watchpoints[i].on_write || watchpoints[i].length == 0) continue;
    for (uint64_t page : replay.held_pages()) {
      const WatchedPart part = WatchedIn(page, watchpoints[i]);
      if (part.size == 0) continue;
      WatchedImport ending{replay.count(), i, page, std::string(part.size, '\0')};
      auto* bytes = reinterpret_cast<uint8_t*>(ending.bytes.data());
      if (replay.ReadHeld(page + part.offset, absl::MakeSpan(bytes, part.size))) {
        endings.push_back(std::move(ending));
      }
    }
  }
  return endings;
}

const FullKeyframe* KeyframeAtStart(const TraceReader& trace, int32_t thread, uint64_t number) {
  for (const auto& keyframe : trace.full_keyframes()) {
    for (const FullKeyframe::ThreadState& state : keyframe->threads()) {
      if (state.thread == thread && state.segment == number) return keyframe.get();
    }
  }
  return nullptr;
}

std::vector<WatchedImport> WatchedAtStart(const TraceReader& trace, const SegmentReplay& replay,
                                          const std::vector<Watchpoint>& watchpoints) {
  if (watchpoints.empty()) return {};
  std::vector<WatchedImport> imports = WatchedBytes(replay, watchpoints);
  for (const Record& record : replay.segment().records()) {
    if (record.count != replay.count()) break;
    const auto* page = std::get_if<PageImport>(&record.body);
    if (page == nullptr || !page->first || replay.segment().info().thinned) continue;
    for (WatchedImport& import : imports) {
      if (import.page == page->address) import.known_mask = page->known_mask;
    }
  }
  const SegmentInfo& info = replay.segment().info();
  const FullKeyframe* keyframe = KeyframeAtStart(trace, info.thread, info.number);
  if (keyframe == nullptr) return imports;
  std::array<uint8_t, kPageBytes> bytes;
  for (size_t i = 0; i < watchpoints.size(); ++i) {
    const Watchpoint& watch = watchpoints[i];
    if (!watch.on_write || watch.length == 0) continue;
    const absl::Span<const uint64_t> pages = keyframe->page_addresses();
    auto page = std::lower_bound(pages.begin(), pages.end(), PageOf(watch.address));
    for (; page != pages.end() && *page <= watch.address + (watch.length - 1); ++page) {
      const WatchedPart part = WatchedIn(*page, watch);
      const bool held = std::any_of(imports.begin(), imports.end(), [&](const WatchedImport& old) {
        return old.index == i && old.page == *page;
      });
      if (held || !keyframe->ReadPage(*page, absl::MakeSpan(bytes)).ok()) continue;
      const auto* watched = reinterpret_cast<const char*>(bytes.data()) + part.offset;
      imports.push_back({.count = replay.count(),
                         .index = i,
                         .page = *page,
                         .bytes = std::string(watched, part.size),
                         .keyframe = keyframe->number()});
    }
  }
  return imports;
}

SegmentSearch::SegmentSearch(const TraceReader* trace, int host_threads)
    : trace_(trace),
      host_threads_(host_threads > 0 ? host_threads
                                     : std::max(1u, std::thread::hardware_concurrency())) {}

absl::Status SegmentSearch::Run(
    const Request& request, const std::function<absl::StatusOr<bool>(const SegmentHits&)>& take) {
  const uint64_t workers = std::min<uint64_t>(host_threads_, Length(request));
  while (replays_.size() < workers) {
    ASSIGN_OR_RETURN(auto replay, SegmentReplay::Create(trace_));
    replays_.push_back(std::move(replay));
  }
  Work work(trace_, request, workers);
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < workers; ++i) {
    threads.emplace_back([&work, replay = replays_[i].get()] { work.RunWorker(replay); });
  }
  absl::Status status;
  for (uint64_t index = 0; index < work.size(); ++index) {
    std::optional<absl::StatusOr<SegmentHits>> hits = work.Take(index);
    if (!hits.has_value()) {
      status = absl::CancelledError("interrupted");
      break;
    }
    status = hits->status();
    if (!status.ok()) break;
    absl::StatusOr<bool> done = take(**hits);
    status = done.status();
    if (!status.ok() || *done) break;
  }
  work.Cancel();
  for (std::thread& thread : threads) thread.join();
  return status;
}

uint64_t SegmentSearch::states_replayed() const {
  uint64_t states = 0;
  for (const auto& replay : replays_) states += replay->states_replayed();
  return states;
}

}  // namespace hindsight
