// Replays, searches and verifies traces one file of which is wild. See fuzzed_trace.h;
// replay_fuzz_test does so for some seconds of every test run.
//
//   bazel run -c opt //keyframes/fuzz:make_corpus -- DIRECTORY
//   bazel run --config=fuzz //keyframes/fuzz:replay_fuzzer -- DIRECTORY -max_total_time=60

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/types/span.h"
#include "base/check.h"
#include "keyframes/fuzz/toy_to_fuzz.h"
#include "keyframes/timeline/timeline.h"
#include "keyframes/toys/toy_threads.h"
#include "keyframes/verify/verify.h"
#include "tracefmt/fuzz/fuzzed_trace.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {
namespace {

// A damaged trace may say that a loop runs for years.
constexpr std::chrono::milliseconds kPatience{20};

// Raises its flag after a while.
class Deadline {
 public:
  Deadline() : thread_([this] { Wait(); }) {}
  ~Deadline() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  const std::atomic<bool>* flag() const { return &flag_; }
  bool raised() const { return flag_; }

 private:
  void Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!changed_.wait_for(lock, kPatience, [this] { return over_; })) flag_ = true;
  }

  std::atomic<bool> flag_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;  // guarded by mutex_
  std::thread thread_;
};

// What a user sees at the timeline's moment.
void LookAround(Timeline* timeline, const Deadline& deadline) {
  uint8_t bytes[64];
  for (const int32_t thread : timeline->threads()) {
    if (deadline.raised()) return;
    timeline->registers(thread).status().IgnoreError();
    for (const uint64_t address : ToyThreads::kVariables) {
      timeline->ReadMemory(thread, address, absl::MakeSpan(bytes), deadline.flag())
          .status()
          .IgnoreError();
    }
  }
}

void Search(Timeline* timeline, Direction direction, const Deadline& deadline) {
  RunRequest request;
  request.direction = direction;
  request.interrupt = deadline.flag();
  request.watchpoints = {{.address = ToyThreads::kVariables[1], .length = 8}};
  request.breakpoints = {{.address = ToyThreads::LockedInstruction()}};
  request.stop_for_signal = [](int) { return false; };
  for (int stops = 0; stops < 3 && !deadline.raised(); ++stops) {
    if (!timeline->Run(request).ok()) return;
  }
}

void Travel(const TraceReader& trace) {
  const Deadline deadline;
  auto opened = Timeline::Open(&trace, {.search_threads = 1});
  if (!opened.ok()) return;
  Timeline& timeline = **opened;
  for (const uint64_t part : {3, 5, 1, 4}) {
    if (deadline.raised()) return;
    timeline.SeekTo(timeline.end_moment() / 6 * part, deadline.flag()).IgnoreError();
    LookAround(&timeline, deadline);
    const int32_t thread = timeline.current_thread();
    if (timeline.IsAlive(thread)) timeline.StepBackward(thread).status().IgnoreError();
    if (timeline.IsAlive(thread)) timeline.StepForward(thread).status().IgnoreError();
  }
  Search(&timeline, Direction::kBackward, deadline);
  Search(&timeline, Direction::kForward, deadline);
}

void ReplayEverything(const std::string& directory) {
  const auto trace = TraceReader::Open(directory);
  if (!trace.ok()) return;
  {
    const Deadline deadline;
    Verify(**trace, {.host_threads = 1, .interrupt = deadline.flag()}).status().IgnoreError();
  }
  Travel(**trace);
}

}  // namespace
}  // namespace hindsight

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static hindsight::FuzzedTrace toy(hindsight::WriteToyTrace);
  toy.Change(absl::MakeConstSpan(data, size));
  hindsight::ReplayEverything(toy.directory());
  toy.Restore();
  return 0;
}
