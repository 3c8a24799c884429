// The timeline of several threads, against a recording whose every state is known.

#ifndef HINDSIGHT_KEYFRAMES_TIMELINE_TIMELINE_THREADS_FIXTURE_H_
#define HINDSIGHT_KEYFRAMES_TIMELINE_TIMELINE_THREADS_FIXTURE_H_

#include <initializer_list>
#include <memory>
#include <random>
#include <vector>

#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "keyframes/timeline/timeline.h"
#include "keyframes/toys/toy_threads.h"

namespace hindsight {

inline constexpr size_t kVariableCount = ToyThreads::kVariables.size();

inline ToyThreadsOptions AnyOptions(uint32_t seed) {
  std::mt19937 random(seed);
  auto one_of = [&random](std::initializer_list<uint64_t> values) {
    return *(values.begin() + random() % values.size());
  };
  ToyThreadsOptions options;
  options.seed = random();
  options.longest_turn = one_of({5, 60, 200, 1000});
  options.segment_states = one_of({150, 600, 1200, 100'000});
  options.keyframe_turns = one_of({0, 11, 60});
  options.order_runs = one_of({0, 1}) != 0;
  return options;
}

// Of the one recording that all tests look at; for each seed another one.
inline const ToyThreadsOptions& Options() {
  static const auto* const kOptions = new ToyThreadsOptions(AnyOptions(TestSeed()));
  return *kOptions;
}

inline const ToyThreads& Toy() {
  static const auto* const kToy = new ToyThreads(Options());
  return *kToy;
}

class TimelineThreadsTest : public testing::Test {
 protected:
  TimelineThreadsTest() : timeline_(*Timeline::Open(Toy().trace())), random_(TestSeed()) {}

  uint64_t Between(uint64_t low, uint64_t high) {
    return std::uniform_int_distribution<uint64_t>(low, high)(random_);
  }
  bool Coin() { return Between(0, 1) != 0; }

  RunStop Run(const RunRequest& request) {
    auto stop = timeline_->Run(request);
    EXPECT_TRUE(stop.ok()) << stop.status();
    return stop.ok() ? *stop : RunStop{};
  }
  uint64_t moment() const { return timeline_->moment(); }
  void Seek(uint64_t moment) {
    auto status = timeline_->SeekTo(moment);
    ASSERT_TRUE(status.ok()) << status;
  }
  absl::StatusOr<uint64_t> Read(int32_t thread, uint64_t address) {
    uint64_t value = 0;
    auto out = absl::MakeSpan(reinterpret_cast<uint8_t*>(&value), sizeof(value));
    auto size = timeline_->ReadMemory(thread, address, out);
    if (!size.ok()) return size.status();
    return value;
  }

  // The threads that live here are in the right states, and memory is what the process knew.
  void ExpectTruth() {
    const ToyThreads::Moment& truth = Toy().moments()[moment()];
    ASSERT_EQ(timeline_->current_thread(), truth.thread);
    for (int32_t thread : timeline_->threads()) {
      const uint64_t count = Toy().CountAt(thread, moment());
      ASSERT_EQ(timeline_->count(thread), count) << "thread " << thread << " at " << moment();
      auto registers = timeline_->registers(thread);
      ASSERT_TRUE(registers.ok()) << registers.status();
      ASSERT_EQ(*registers, Toy().registers(thread, count)) << thread << " at " << moment();
    }
    for (size_t v = 0; v < kVariableCount; ++v) {
      auto value = Read(truth.thread, ToyThreads::kVariables[v]);
      ASSERT_TRUE(value.ok()) << value.status();
      ASSERT_EQ(*value, truth.values[v]) << "variable " << v << " at moment " << moment();
    }
  }

  std::unique_ptr<Timeline> timeline_;
  std::mt19937 random_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_TIMELINE_TIMELINE_THREADS_FIXTURE_H_
