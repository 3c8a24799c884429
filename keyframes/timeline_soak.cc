// Travels about in a trace for a while and checks that time travel is consistent:
// timeline_soak TRACE [ROUNDS [SEED]]
//
// What is reached by any way must be what plain forward replay reached, and stops found backward
// must be those found forward. Exit status 1 and one line where that is not so.

#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/check.h"
#include "keyframes/timeline.h"

namespace hindsight {
namespace {

class Soak {
 public:
  Soak(const TraceReader* trace, uint32_t seed)
      : random_(seed),
        timeline_(*Timeline::Open(trace)),
        begin_(0),
        end_(timeline_->end_moment()) {}

  bool Run(int rounds) {
    CollectTruth();
    for (int i = 0; i < rounds; ++i) {
      if (!CheckSeek() || !CheckSteps() || !CheckBreakpoint() || !CheckWatchpoint()) return false;
      std::printf("\rround %d of %d", i + 1, rounds);
      std::fflush(stdout);
    }
    std::printf("\n");
    return true;
  }

 private:
  static constexpr int kSamples = 64;

  uint64_t Between(uint64_t low, uint64_t high) {
    return std::uniform_int_distribution<uint64_t>(low, high)(random_);
  }

  void CollectTruth() {
    for (int i = 0; i < kSamples; ++i) truth_[Between(begin_, end_)] = {};
    for (auto& [count, registers] : truth_) {
      CHECK(timeline_->SeekTo(count).ok());
      registers = *timeline_->registers(timeline_->current_thread());
    }
  }

  bool Expect(bool holds, const char* what) {
    if (!holds) std::printf("\n%s: at count %lu\n", what, timeline_->moment());
    return holds;
  }

  uint64_t SeekToSample() {
    auto it = truth_.begin();
    std::advance(it, Between(0, truth_.size() - 1));
    CHECK(timeline_->SeekTo(it->first).ok());
    return it->first;
  }

  bool AtTruth(const char* what) {
    return Expect(*timeline_->registers(timeline_->current_thread()) == truth_[timeline_->moment()],
                  what);
  }

  bool CheckSeek() {
    SeekToSample();
    return AtTruth("a seek differs from replay");
  }

  bool CheckSteps() {
    const uint64_t count = SeekToSample();
    const uint64_t steps = Between(1, 400);
    if (count + steps > end_ || count < begin_ + steps) return true;
    if (Between(0, 1) != 0) {
      for (uint64_t i = 0; i < steps; ++i)
        CHECK(*timeline_->StepForward(timeline_->current_thread()));
      for (uint64_t i = 0; i < steps; ++i)
        CHECK(*timeline_->StepBackward(timeline_->current_thread()));
    } else {
      for (uint64_t i = 0; i < steps; ++i)
        CHECK(*timeline_->StepBackward(timeline_->current_thread()));
      for (uint64_t i = 0; i < steps; ++i)
        CHECK(*timeline_->StepForward(timeline_->current_thread()));
    }
    return Expect(timeline_->moment() == count, "steps do not add up") && AtTruth("steps differ");
  }

  // Runs forward over at most `most` stops; their counts.
  std::vector<uint64_t> Forward(RunRequest request, int most) {
    std::vector<uint64_t> counts;
    request.direction = RunDirection::kForward;
    request.leave_first_breakpoint = true;
    for (int i = 0; i < most; ++i) {
      auto stop = timeline_->Run(request);
      if (!stop.ok()) std::printf("\n%s\n", stop.status().ToString().c_str());
      CHECK(stop.ok());
      if (stop->kind == RunStopKind::kEnd) break;
      counts.push_back(timeline_->moment());
    }
    return counts;
  }

  RunRequest NoSignals() {
    RunRequest request;
    request.stop_for_signal = [](int) { return false; };
    return request;
  }

  bool CheckBreakpoint() {
    SeekToSample();
    RunRequest request = NoSignals();
    request.breakpoints = {{.address = timeline_->registers(timeline_->current_thread())->rip}};
    const std::vector<uint64_t> counts = Forward(request, 6);
    request.direction = RunDirection::kBackward;
    for (size_t i = counts.size(); i-- > 1;) {
      if (i == counts.size() - 1) CHECK(timeline_->SeekTo(counts[i]).ok());
      auto stop = timeline_->Run(request);
      CHECK(stop.ok());
      if (!Expect(timeline_->moment() == counts[i - 1], "a breakpoint is elsewhere backward")) {
        std::printf("expected %lu\n", counts[i - 1]);
        return false;
      }
    }
    return true;
  }

  bool CheckWatchpoint() {
    SeekToSample();
    RunRequest request = NoSignals();
    const uint64_t address = timeline_->registers(timeline_->current_thread())->gpr[kRsp] - 8;
    request.watchpoints = {{.address = address, .length = 8}};
    const std::vector<uint64_t> counts = Forward(request, 6);
    request.direction = RunDirection::kBackward;
    for (size_t i = counts.size(); i-- > 0;) {
      auto stop = timeline_->Run(request);
      CHECK(stop.ok());
      if (!Expect(timeline_->moment() + 1 == counts[i], "a watchpoint is elsewhere backward")) {
        std::printf("expected %lu, watching 0x%lx\n", counts[i] - 1, address);
        return false;
      }
    }
    return true;
  }

  std::mt19937 random_;
  std::unique_ptr<Timeline> timeline_;
  const uint64_t begin_;
  const uint64_t end_;
  std::map<uint64_t, RegisterFile> truth_;
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
