// Travels about in a trace for a while and checks that time travel is consistent:
// timeline_soak TRACE [ROUNDS [SEED]]
//
// What is reached by any way must be what plain forward replay reached, and stops found backward
// must be those found forward. Exit status 1 and one line where that is not so.

#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/check.h"
#include "keyframes/timeline/timeline.h"

namespace hindsight {
namespace {

class Soak {
 public:
  Soak(const TraceReader* trace, uint32_t seed)
      : random_(seed), timeline_(*Timeline::Open(trace)), end_(timeline_->end_moment()) {}

  bool Run(int rounds) {
    CollectTruth();
    for (int i = 0; i < rounds; ++i) {
      if (!CheckSeek() || !CheckPosition() || !CheckSteps() || !CheckBreakpoint() ||
          !CheckWatchpoint()) {
        return false;
      }
      std::printf("\rround %d of %d", i + 1, rounds);
      std::fflush(stdout);
    }
    std::printf("\n");
    return true;
  }

 private:
  static constexpr int kSamples = 64;
  static constexpr size_t kThreadsLookedAt = 4;

  uint64_t Between(uint64_t low, uint64_t high) {
    return std::uniform_int_distribution<uint64_t>(low, high)(random_);
  }

  // What plain seeks show: the registers of all threads, or of some where there are many.
  using Truth = std::map<int32_t, RegisterFile>;

  void CollectTruth() {
    for (int i = 0; i < kSamples; ++i) truth_[Between(0, end_)] = {};
    for (auto& [moment, threads] : truth_) {
      CHECK(timeline_->SeekTo(moment).ok());
      for (int32_t thread : timeline_->threads()) {
        if (thread != timeline_->current_thread() && threads.size() >= kThreadsLookedAt) continue;
        auto registers = timeline_->registers(thread);
        CHECK(registers.ok());
        threads[thread] = *registers;
      }
    }
  }

  bool Expect(bool holds, const char* what) {
    if (!holds) std::printf("\n%s: at moment %lu\n", what, timeline_->moment());
    return holds;
  }

  uint64_t SeekToSample() {
    auto it = truth_.begin();
    std::advance(it, Between(0, truth_.size() - 1));
    CHECK(timeline_->SeekTo(it->first).ok());
    return it->first;
  }

  bool AtTruth(const char* what) {
    for (const auto& [thread, registers] : truth_[timeline_->moment()]) {
      auto here = timeline_->registers(thread);
      if (!Expect(here.ok() && *here == registers, what)) return false;
    }
    return true;
  }

  bool CheckSeek() {
    SeekToSample();
    return AtTruth("a seek differs from replay");
  }

  bool CheckPosition() {
    const uint64_t moment = SeekToSample();
    const Position position = timeline_->position();
    CHECK(timeline_->SeekTo(Between(0, end_)).ok());
    CHECK(timeline_->SeekTo(position).ok());
    return Expect(timeline_->moment() == moment, "a position leads elsewhere") &&
           AtTruth("a position shows something else");
  }

  int32_t AnyThread() {
    const std::vector<int32_t> threads = timeline_->threads();
    return threads[Between(0, threads.size() - 1)];
  }

  // The thread makes steps one way and as many the other; others are taken along.
  bool CheckSteps() {
    SeekToSample();
    const int32_t thread = AnyThread();
    const bool forward_first = Between(0, 1) != 0;
    const uint64_t count = timeline_->count(thread);
    const RegisterFile registers = *timeline_->registers(thread);
    uint64_t steps = 0;
    for (uint64_t wanted = Between(1, 400); steps < wanted; ++steps) {
      auto moved = Step(thread, forward_first);
      CHECK(moved.ok());
      if (!*moved) break;
    }
    for (; steps > 0; --steps) {
      if (!Expect(timeline_->IsAlive(thread), "a thread is gone where it steps")) return false;
      auto moved = Step(thread, !forward_first);
      CHECK(moved.ok());
      if (!Expect(*moved, "the way back is shorter")) return false;
    }
    return Expect(timeline_->count(thread) == count, "steps do not add up") &&
           Expect(*timeline_->registers(thread) == registers, "steps differ");
  }

  absl::StatusOr<bool> Step(int32_t thread, bool forward) {
    return forward ? timeline_->StepForward(thread) : timeline_->StepBackward(thread);
  }

  struct Stop {
    uint64_t moment = 0;
    int32_t thread = 0;
    std::optional<uint64_t> value;  // of what is watched
  };

  std::optional<uint64_t> Read(int32_t thread, uint64_t address) {
    uint64_t value = 0;
    auto size = timeline_->ReadMemory(
        thread, address, absl::MakeSpan(reinterpret_cast<uint8_t*>(&value), sizeof(value)));
    if (!size.ok() || *size != sizeof(value)) return std::nullopt;
    return value;
  }

  RunStop Run(const RunRequest& request) {
    auto stop = timeline_->Run(request);
    if (!stop.ok()) std::printf("\n%s\n", stop.status().ToString().c_str());
    CHECK(stop.ok());
    return *stop;
  }

  // Runs forward over at most `most` stops.
  std::vector<Stop> Forward(RunRequest request, int most, uint64_t watched = 0) {
    std::vector<Stop> stops;
    request.direction = Direction::kForward;
    request.leave_first_breakpoint = true;
    for (int i = 0; i < most; ++i) {
      const RunStop stop = Run(request);
      if (stop.kind == StopKind::kEnd) break;
      stops.push_back({timeline_->moment(), stop.thread});
      if (watched != 0) stops.back().value = Read(stop.thread, watched);
    }
    return stops;
  }

  RunRequest NoSignals() {
    RunRequest request;
    request.stop_for_signal = [](int) { return false; };
    return request;
  }

  bool CheckBreakpoint() {
    SeekToSample();
    RunRequest request = NoSignals();
    request.breakpoints = {{.address = timeline_->registers(AnyThread())->rip}};
    const std::vector<Stop> stops = Forward(request, 6);
    request.direction = Direction::kBackward;
    for (size_t i = stops.size(); i-- > 1;) {
      if (i == stops.size() - 1) CHECK(timeline_->SeekTo(stops[i].moment).ok());
      const RunStop stop = Run(request);
      if (!Expect(timeline_->moment() == stops[i - 1].moment && stop.thread == stops[i - 1].thread,
                  "a breakpoint is elsewhere backward")) {
        std::printf("expected %lu\n", stops[i - 1].moment);
        return false;
      }
    }
    return true;
  }

  // The stack, or something that a register points to.
  uint64_t AnyAddress() {
    const RegisterFile registers = *timeline_->registers(AnyThread());
    if (Between(0, 1) != 0) {
      const uint64_t address = registers.gpr[Between(0, 15)] & ~uint64_t{7};
      if (Read(timeline_->current_thread(), address).has_value()) return address;
    }
    return registers.gpr[kRsp] - 8;
  }

  bool CheckWatchpoint() {
    SeekToSample();
    RunRequest request = NoSignals();
    const uint64_t address = AnyAddress();
    request.watchpoints = {{.address = address, .length = 8}};
    const std::vector<Stop> stops = Forward(request, 6, address);
    request.direction = Direction::kBackward;
    for (size_t i = stops.size(); i-- > 0;) {
      const RunStop stop = Run(request);
      const bool there =
          timeline_->moment() + 1 == stops[i].moment && stop.thread == stops[i].thread;
      if (!Expect(there, "a watchpoint is elsewhere backward") ||
          (i > 0 && !Expect(Read(stop.thread, address) == stops[i - 1].value,
                            "the old value is not the one written before"))) {
        std::printf("expected %lu, thread %d, watching 0x%lx\n", stops[i].moment - 1,
                    stops[i].thread, address);
        return false;
      }
    }
    return true;
  }

  std::mt19937 random_;
  std::unique_ptr<Timeline> timeline_;
  const uint64_t end_;
  std::map<uint64_t, Truth> truth_;  // by moment
};

}  // namespace
}  // namespace hindsight

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: timeline_soak TRACE [ROUNDS [SEED]]\n");
    return 2;
  }
  auto trace = hindsight::TraceReader::Open(argv[1]);
  if (!trace.ok()) {
    std::fprintf(stderr, "%s\n", trace.status().ToString().c_str());
    return 2;
  }
  const uint32_t seed = argc > 3 ? std::atoi(argv[3]) : std::random_device()();
  std::printf("seed %u\n", seed);
  hindsight::Soak soak(trace->get(), seed);
  return soak.Run(argc > 2 ? std::atoi(argv[2]) : 20) ? 0 : 1;
}
