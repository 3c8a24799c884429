// Measures what time travel costs in a trace: timeline_timing TRACE
//
// For development: the figures users see, through gdb's protocol, are in bench/.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "base/check.h"
#include "keyframes/timeline/timeline.h"

namespace hindsight {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Of all threads: says more than elapsed time where others use the machine.
double ProcessorSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// An address no program executes, and one it does not write.
constexpr uint64_t kNowhere = 0x10;

class Timing {
 public:
  explicit Timing(Timeline* timeline) : timeline_(timeline) {}

  void RunTo(Direction direction, const char* name, RunRequest request = {}) {
    request.direction = direction;
    request.stop_for_signal = [](int) { return false; };
    const uint64_t from = timeline_->moment();
    const double processor_start = ProcessorSeconds();
    const auto start = Clock::now();
    auto stop = timeline_->Run(request);
    const double seconds = SecondsSince(start);
    const double processor_seconds = ProcessorSeconds() - processor_start;
    CHECK(stop.ok());
    const uint64_t to = timeline_->moment();
    const uint64_t states = to > from ? to - from : from - to;
    std::printf("%-44s %9.3f s  (cpu %7.3f s)  %7.1f M states/s, stop %d\n", name, seconds,
                processor_seconds, static_cast<double>(states) / seconds / 1e6,
                static_cast<int>(stop->kind));
  }

  void Steps(int steps, bool forward, const char* name) {
    const auto first = Clock::now();
    CHECK((forward ? timeline_->StepForward(timeline_->current_thread())
                   : timeline_->StepBackward(timeline_->current_thread()))
              .ok());
    const double first_seconds = SecondsSince(first);
    double worst = 0;
    const auto start = Clock::now();
    for (int i = 1; i < steps; ++i) {
      const auto one = Clock::now();
      CHECK((forward ? timeline_->StepForward(timeline_->current_thread())
                     : timeline_->StepBackward(timeline_->current_thread()))
                .ok());
      (void)*timeline_->registers(timeline_->current_thread());
      worst = std::max(worst, SecondsSince(one));
    }
    std::printf("%-44s first %.3f ms, then %.2f us each, worst %.3f ms\n", name,
                first_seconds * 1e3, SecondsSince(start) / (steps - 1) * 1e6, worst * 1e3);
  }

  // How long after the flag is raised a run returns.
  void Interrupt(Direction direction, const char* name, RunRequest request) {
    CHECK(timeline_->SeekTo(timeline_->process().MomentAtPercent(50)).ok());
    std::atomic<bool> interrupt{false};
    request.direction = direction;
    request.stop_for_signal = [](int) { return false; };
    request.interrupt = &interrupt;
    Clock::time_point raised;
    double processor_raised = 0;
    std::thread presser([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      raised = Clock::now();
      processor_raised = ProcessorSeconds();
      interrupt = true;
    });
    auto stop = timeline_->Run(request);
    const auto returned = Clock::now();
    const double processor_returned = ProcessorSeconds();
    presser.join();
    CHECK(stop.ok());
    std::printf("interrupt: %-33s %9.3f s  (cpu %7.3f s), stop %d\n", name,
                std::chrono::duration<double>(returned - raised).count(),
                processor_returned - processor_raised, static_cast<int>(stop->kind));
  }

  void Seek(double percent) {
    const uint64_t target = timeline_->process().MomentAtPercent(percent);
    const auto start = Clock::now();
    CHECK(timeline_->SeekTo(target).ok());
    std::printf("seek to %5.1f %% %39.3f s\n", percent, SecondsSince(start));
  }

 private:
  Timeline* const timeline_;
};

int Main(const char* directory) {
  auto trace = TraceReader::Open(directory);
  if (!trace.ok()) {
    std::fprintf(stderr, "%s\n", trace.status().ToString().c_str());
    return 1;
  }
  const auto start = Clock::now();
  auto timeline = Timeline::Open(trace->get());
  CHECK(timeline.ok());
  std::printf("%-44s %9.3f s, %zu threads, %zu slices\n", "open", SecondsSince(start),
              (*timeline)->process().threads().all().size(),
              (*timeline)->schedule().slices().size());
  Timing timing(timeline->get());
  std::printf("%.1f M states\n", static_cast<double>((*timeline)->end_moment()) / 1e6);
  RunRequest nothing;
  RunRequest breakpoint;
  breakpoint.breakpoints = {{.address = kNowhere}};
  RunRequest watchpoint;
  watchpoint.watchpoints = {{.address = kNowhere, .length = 8}};
  timing.Seek(60);
  timing.Steps(1000, true, "1000 steps forward");
  timing.Steps(2000, false, "2000 steps backward");
  timing.RunTo(Direction::kForward, "continue to the end", nothing);
  timing.Steps(1000, false, "1000 steps backward from the end");
  timing.RunTo(Direction::kForward, "continue to the end", nothing);
  timing.RunTo(Direction::kBackward, "reverse-continue, no stops", nothing);
  timing.RunTo(Direction::kForward, "continue, breakpoint never hit", breakpoint);
  timing.RunTo(Direction::kBackward, "reverse-continue, breakpoint never hit", breakpoint);
  timing.RunTo(Direction::kForward, "continue, watchpoint never hit", watchpoint);
  timing.RunTo(Direction::kBackward, "reverse-continue, watchpoint never hit", watchpoint);
  timing.Interrupt(Direction::kForward, "continue, breakpoint", breakpoint);
  timing.Interrupt(Direction::kForward, "continue, watchpoint", watchpoint);
  timing.Interrupt(Direction::kBackward, "reverse-continue, breakpoint", breakpoint);
  timing.Interrupt(Direction::kBackward, "reverse-continue, watchpoint", watchpoint);
  uint64_t evaluated = 0;
  breakpoint.breakpoints = {{.address = (*timeline)->registers((*timeline)->current_thread())->rip,
                             .condition = [&evaluated](int32_t) {
                               ++evaluated;
                               return false;
                             }}};
  timing.Interrupt(Direction::kForward, "continue, condition", breakpoint);
  std::printf("%lu conditions evaluated in 0.3 s\n", evaluated);
  timing.Interrupt(Direction::kBackward, "reverse-continue, condition", breakpoint);
  evaluated = 0;
  breakpoint.watchpoints = watchpoint.watchpoints;
  timing.Interrupt(Direction::kForward, "continue, condition and watchpoint", breakpoint);
  std::printf("%lu conditions evaluated in 0.3 s\n", evaluated);
  timing.Interrupt(Direction::kBackward, "reverse-continue, both", breakpoint);
  for (double percent : {50.0, 10.0, 10.001, 9.999, 90.0}) timing.Seek(percent);
  const TimelineStatistics statistics = (*timeline)->statistics();
  std::printf("%lu checkpoints, %.1f MiB\n", statistics.checkpoints,
              static_cast<double>(statistics.checkpoint_bytes) / (1 << 20));
  return 0;
}

}  // namespace
}  // namespace hindsight

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: timeline_timing TRACE\n");
    return 2;
  }
  return hindsight::Main(argv[1]);
}
