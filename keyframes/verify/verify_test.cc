#include "keyframes/verify/verify.h"

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "keyframes/toys/toy_recording.h"
#include "keyframes/toys/toy_threads.h"

namespace hindsight {
namespace {

VerifyResult Check(const ToyRecording& toy) {
  auto result = Verify(*toy.trace());
  EXPECT_TRUE(result.ok()) << result.status();
  return *std::move(result);
}

TEST(VerifyTest, AGoodRecordingIsExact) {
  const ToyRecording toy({.signal_every = 30, .full_keyframes = true});
  const VerifyResult result = Check(toy);
  EXPECT_TRUE(result.exact()) << result.difference;
  EXPECT_EQ(result.states, toy.states().size() - 1);
  EXPECT_EQ(result.signals, toy.signal_counts().size());
  EXPECT_EQ(result.segments, toy.trace()->segments(toy.trace()->threads().front()).size());
  EXPECT_GT(result.checks, toy.syscall_counts().size());
}

TEST(VerifyTest, AWrongHashIsFoundWhereItStands) {
  const ToyRecording toy({.spoil_hash = true});
  const VerifyResult result = Check(toy);
  EXPECT_TRUE(absl::IsDataLoss(result.difference));
  EXPECT_EQ(result.segments_failed, 1);
  EXPECT_NE(result.difference.message().find(std::to_string(toy.syscall_counts()[4])),
            std::string::npos)
      << result.difference;
}

TEST(VerifyTest, AWrongRegisterAtTheEndOfASegmentIsNamed) {
  const ToyRecording toy({.spoil_end = true});
  const VerifyResult result = Check(toy);
  EXPECT_TRUE(absl::IsDataLoss(result.difference));
  EXPECT_NE(result.difference.message().find("r14 is 0x0 (recorded 0x5)"), std::string::npos)
      << result.difference;
}

TEST(VerifyTest, APageNotImportedIsNamed) {
  const ToyRecording toy({.drop_imports = true});
  const VerifyResult result = Check(toy);
  EXPECT_TRUE(absl::IsDataLoss(result.difference));
  EXPECT_NE(result.difference.message().find("0x600000"), std::string::npos) << result.difference;
}

TEST(VerifyTest, SequenceNumbersOfSeveralThreadsAreChecked) {
  const ToyThreads toy;
  auto result = Verify(*toy.trace());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->exact()) << result->difference;
  EXPECT_EQ(result->states, toy.end_moment());
  EXPECT_EQ(result->order_numbers, toy.last_sequence());
}

TEST(VerifyTest, ARepeatedSequenceNumberIsFound) {
  const ToyThreads toy({.repeat_sequence = true});
  auto result = Verify(*toy.trace());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(absl::IsDataLoss(result->difference));
  EXPECT_EQ(result->segments_failed, 0);
}

TEST(VerifyTest, OrderableInstructionsThatAreNoneAreFound) {
  const ToyThreads toy({.misplace_order_run = true});
  auto result = Verify(*toy.trace());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(absl::IsDataLoss(result->difference));
  EXPECT_EQ(result->segments_failed, 1);
}

TEST(VerifyTest, AnInterruptEndsIt) {
  const ToyRecording toy;
  std::atomic<bool> interrupt{true};
  auto result = Verify(*toy.trace(), {.interrupt = &interrupt});
  EXPECT_TRUE(result.ok() || absl::IsCancelled(result.status()));
}

}  // namespace
}  // namespace hindsight
