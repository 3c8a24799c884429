#include "server/target/stop_notes.h"

#include <memory>

#include "gtest/gtest.h"
#include "keyframes/toys/toy_recording.h"

namespace hindsight {
namespace {

class StopNotesTest : public ::testing::Test {
 protected:
  StopNotesTest()
      : toy_({.iterations = 40}),
        timeline_(*Timeline::Open(toy_.trace())),
        notes_(toy_.trace(), timeline_.get()) {}

  RunStop Event(StopKind kind) { return {.kind = kind, .thread = ToyRecording::kThread}; }
  std::string Noted(const RunStop& event, const RunStop& previous = {}) {
    notes_.Add(event, previous);
    return notes_.Take();
  }
  bool Notes(const RunStop& event, const std::string& part) {
    return Noted(event).find(part) != std::string::npos;
  }

  ToyRecording toy_;
  std::unique_ptr<Timeline> timeline_;
  StopNotes notes_;
};

TEST_F(StopNotesTest, OrdinaryStopsNeedNone) {
  EXPECT_EQ(Noted(Event(StopKind::kBreakpoint)), "");
  EXPECT_EQ(Noted(Event(StopKind::kStep)), "");
}

TEST_F(StopNotesTest, TheEndIsExplainedOnce) {
  ASSERT_TRUE(timeline_->SeekTo(timeline_->end_moment()).ok());
  const RunStop end = Event(StopKind::kEnd);
  EXPECT_NE(Noted(end), "");
  EXPECT_EQ(Noted(end, /*previous=*/end), "");
}

TEST_F(StopNotesTest, TheEndOfAThreadIsNotThatOfTheRecording) {
  ASSERT_TRUE(timeline_->SeekTo(10).ok());
  EXPECT_TRUE(Notes(Event(StopKind::kEnd), "continue goes on with the others"));
  EXPECT_TRUE(Notes(Event(StopKind::kBegin), "reverse-continue goes further back"));
}

TEST_F(StopNotesTest, ForksAreExplainedOnce) {
  RunStop fork = Event(StopKind::kFork);
  fork.child = 99;
  EXPECT_TRUE(Notes(fork, "replay -p 99"));
  EXPECT_EQ(Noted(fork), "");
}

TEST_F(StopNotesTest, SystemCallsAreShownWithTheirResultOnceTheyHaveOne) {
  const uint64_t moment = toy_.syscall_counts()[0] - toy_.begin_count();
  ASSERT_TRUE(timeline_->SeekTo(moment).ok());
  RunStop event = Event(StopKind::kSyscallEntry);
  event.syscall =
      timeline_->thread_state(ToyRecording::kThread).SyscallFrom(toy_.syscall_counts()[0])->number;
  const std::string entry = Noted(event);
  EXPECT_NE(entry, "");
  EXPECT_EQ(entry.find(" = "), std::string::npos) << entry;
  ASSERT_TRUE(timeline_->SeekTo(moment + 1).ok());
  event.kind = StopKind::kSyscallReturn;
  EXPECT_TRUE(Notes(event, " = "));
}

TEST_F(StopNotesTest, UnknownMemoryNamesAddressAndSpan) {
  RunStop event = Event(StopKind::kWatchpoint);
  event.unknown = {{.address = 0x1234, .thread = ToyRecording::kThread, .from = 0, .to = 5}};
  EXPECT_TRUE(Notes(event, "0x1234 was not known between 0:0 and 0:5"));
}

}  // namespace
}  // namespace hindsight
