#include "keyframes/inspect/timeline_view.h"

#include <csignal>
#include <cstring>
#include <memory>

#include "gtest/gtest.h"
#include "keyframes/toys/toy_recording.h"
#include "keyframes/toys/toy_threads.h"

namespace hindsight {
namespace {

// The memory of a view as `thread` sees it, all bytes or none: a MemoryReader.
class ViewMemory {
 public:
  ViewMemory(ProcessView* view, int32_t thread) : view_(view), thread_(thread) {}
  bool operator()(uint64_t address, absl::Span<uint8_t> out) const {
    const absl::StatusOr<size_t> known = view_->ReadMemory(thread_, address, out);
    return known.ok() && *known == out.size();
  }

 private:
  ProcessView* view_;
  int32_t thread_;
};

class TimelineViewTest : public ::testing::Test {
 protected:
  TimelineViewTest()
      : toy_({.iterations = 40, .signal_every = 16, .full_keyframes = true}),
        timeline_(*Timeline::Open(toy_.trace())),
        view_(toy_.trace(), timeline_.get()),
        memory_(&view_, ToyRecording::kThread) {}

  void GoTo(uint64_t moment) { ASSERT_TRUE(timeline_->SeekTo(moment).ok()); }
  // Moment 0 is the state of begin_count().
  void GoToCount(uint64_t count) { GoTo(count - toy_.begin_count()); }
  uint64_t Word(uint64_t address) { return ReadWord(memory_, address).value_or(~uint64_t{0}); }

  ToyRecording toy_;
  std::unique_ptr<Timeline> timeline_;
  TimelineView view_;
  ViewMemory memory_;
};

TEST_F(TimelineViewTest, RegistersAndMemoryAreThoseOfThePosition) {
  for (const uint64_t moment : {uint64_t{0}, uint64_t{500}, toy_.states().size() - 1}) {
    GoTo(moment);
    auto registers = view_.Registers(ToyRecording::kThread);
    ASSERT_TRUE(registers.ok()) << registers.status();
    EXPECT_EQ(registers->rip, toy_.states()[moment].registers.rip) << moment;
    // Nobody has used the variable before the first iteration.
    if (moment > 0) {
      EXPECT_EQ(Word(ToyRecording::kSum), toy_.states()[moment].sum) << moment;
    }
  }
}

TEST_F(TimelineViewTest, UnknownMemoryIsNotFound) {
  uint8_t byte = 0;
  EXPECT_EQ(view_.ReadMemory(ToyRecording::kThread, 0x10, absl::MakeSpan(&byte, 1)).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_FALSE(view_.IsUntouched(ToyRecording::kThread, 0x10));
}

TEST_F(TimelineViewTest, SyscallNumberIsSetAtBothStopsOfACall) {
  const uint64_t before = toy_.syscall_counts()[1];
  GoToCount(before);
  const int64_t number = view_.SyscallNumber(ToyRecording::kThread);
  EXPECT_GE(number, 0);
  GoToCount(before + 1);
  EXPECT_EQ(view_.SyscallNumber(ToyRecording::kThread), number);
  GoToCount(before + 2);
  EXPECT_EQ(view_.SyscallNumber(ToyRecording::kThread), -1);
}

TEST_F(TimelineViewTest, SigInfoIsThatOfTheSignalDeliveredNext) {
  const auto first_word = [this] {
    const auto info = view_.SigInfo(ToyRecording::kThread);
    EXPECT_TRUE(info.ok()) << info.status();
    int32_t word = 0;
    if (info.ok()) std::memcpy(&word, info->data(), sizeof(word));
    return word;
  };
  EXPECT_EQ(first_word(), SIGTRAP);
  GoToCount(toy_.signal_counts()[0]);
  EXPECT_EQ(first_word(), 0x01010101) << "what the toy recorded";
}

TEST_F(TimelineViewTest, FilesAndLinksComeFromTheTrace) {
  const std::string proc = "/proc/" + std::to_string(view_.pid()) + "/";
  EXPECT_EQ(view_.ExecutablePath(), "/toy");
  EXPECT_EQ(view_.ReadLink(proc + "exe", memory_).value_or(""), "/toy");
  EXPECT_EQ(view_.ReadLink(proc + "maps", memory_).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(view_.FileContents(proc + "comm", memory_).value_or(""), "toy\n");
  EXPECT_EQ(view_.FileContents("/etc/passwd", memory_).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_FALSE(view_.Regions().empty());
  EXPECT_TRUE(view_.Libraries(memory_).libraries.empty());
}

TEST_F(TimelineViewTest, ListingEventsReturnsToThePosition) {
  GoTo(700);
  const auto events = view_.ListEvents({.number = 3}, /*interrupt=*/nullptr);
  ASSERT_TRUE(events.ok()) << events.status();
  EXPECT_NE(events->find("\n> "), std::string::npos) << *events;
  EXPECT_EQ(timeline_->moment(), 700);
}

TEST(TimelineViewThreadsTest, OnlyThreadsAliveAreShown) {
  const ToyThreads toy;
  const auto timeline = *Timeline::Open(toy.trace());
  TimelineView view(toy.trace(), timeline.get());
  EXPECT_EQ(view.threads(), std::vector<int32_t>{ToyThreads::kMain});
  EXPECT_FALSE(view.IsAlive(ToyThreads::kSecond));
  EXPECT_EQ(view.SigInfo(ToyThreads::kSecond).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(view.Registers(ToyThreads::kSecond).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(timeline->SeekTo(toy.starts().at(ToyThreads::kSecond)).ok());
  EXPECT_TRUE(view.IsAlive(ToyThreads::kSecond));
}

}  // namespace
}  // namespace hindsight
