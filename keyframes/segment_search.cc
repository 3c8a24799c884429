#include "keyframes/segment_search.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/status_macros.h"

namespace hindsight {
namespace {

constexpr std::chrono::milliseconds kInterruptInterval{20};
// Segments searched ahead of the one whose result is wanted next, per host thread: more would be
// wasted when a hit is found.
constexpr uint64_t kAhead = 2;

// Replays one segment with hits noted.
absl::StatusOr<SegmentHits> SearchOne(const TraceReader* trace, int32_t thread, uint64_t number,
                                      const SegmentSearch::Request& request, SegmentReplay* replay,
                                      const std::atomic<bool>* cancelled) {
  ASSIGN_OR_RETURN(std::shared_ptr<const Segment> segment, trace->LoadSegment(thread, number));
  SegmentHits hits;
  hits.number = number;
  hits.first_count = segment->info().first_count;
  hits.end_count = segment->end_count();
  replay->SetStops(*request.breakpoints, *request.watchpoints);
  RETURN_IF_ERROR(replay->Load(segment));
  hits.trace.unknown = WatchedBytes(*replay, *request.watchpoints);
  RETURN_IF_ERROR(replay->AdvanceNoting(hits.end_count, &hits.trace, cancelled));
  hits.endings = WatchedBytes(*replay, *request.watchpoints);
  return hits;
}

// What the workers share. Results are taken in order of `index`: 0 is the newest segment.
class Work {
 public:
  Work(const TraceReader* trace, int32_t thread, const SegmentSearch::Request& request,
       uint64_t workers)
      : trace_(trace),
        thread_(thread),
        request_(request),
        ahead_(workers * kAhead),
        results_(request.newest - request.oldest + 1) {}

  void RunWorker(SegmentReplay* replay);
  void Cancel();
  // Waits for result `index`; nullopt if interrupted.
  std::optional<absl::StatusOr<SegmentHits>> Take(uint64_t index);
  uint64_t size() const { return results_.size(); }

 private:
  const TraceReader* const trace_;
  const int32_t thread_;
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
    auto hits = SearchOne(trace_, thread_, request_.newest - index, request_, replay, &cancelled_);
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

SegmentSearch::SegmentSearch(const TraceReader* trace, int32_t thread, int host_threads)
    : trace_(trace),
      thread_(thread),
      host_threads_(host_threads > 0 ? host_threads
                                     : std::max(1u, std::thread::hardware_concurrency())) {}

absl::Status SegmentSearch::Run(
    const Request& request, const std::function<absl::StatusOr<bool>(const SegmentHits&)>& take) {
  const uint64_t workers = std::min<uint64_t>(host_threads_, request.newest - request.oldest + 1);
  while (replays_.size() < workers) {
    ASSIGN_OR_RETURN(auto replay, SegmentReplay::Create(trace_));
    replays_.push_back(std::move(replay));
  }
  Work work(trace_, thread_, request, workers);
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
