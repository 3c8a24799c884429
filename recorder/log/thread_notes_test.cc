#include "recorder/log/thread_notes.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "recorder/log/fake_trace_writer.h"

namespace hindsight {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

// Notes about the test's own thread.
class ThreadNotesTest : public testing::Test {
 protected:
  const ProcessEvent& Last() const { return writer_.events.back(); }

  FakeTraceWriter writer_;
  Sequence sequence_;
  ThreadLog log_{&writer_, 7, &sequence_};
  ThreadScheduling scheduling_{getpid(), gettid()};
  ThreadNotes notes_{&log_, &scheduling_};
};

TEST_F(ThreadNotesTest, StartNamesTheThreadAndItsMaker) {
  prctl(PR_SET_NAME, "starting");
  notes_.Start(3, 5, /*orderable=*/true);
  EXPECT_EQ(Last().kind, EventKind::kThreadStart);
  EXPECT_EQ(Last().thread, 7);
  EXPECT_EQ(Last().count, 3u);
  EXPECT_EQ(Last().number, 5);
  EXPECT_EQ(Last().sequence, 1u);
  EXPECT_EQ(Last().text, "starting");
}

TEST_F(ThreadNotesTest, FirstStartOfAllTakesNoSequenceNumber) {
  notes_.Start(0, 0, /*orderable=*/false);
  EXPECT_EQ(Last().sequence, 0u);
  EXPECT_EQ(sequence_.last, 0u);
}

TEST_F(ThreadNotesTest, NameIsLoggedWhenItHasChanged) {
  prctl(PR_SET_NAME, "before");
  notes_.Start(0, 0, false);
  notes_.Name(1);
  EXPECT_EQ(writer_.events.size(), 1u);
  prctl(PR_SET_NAME, "after");
  notes_.Name(2);
  ASSERT_EQ(writer_.events.size(), 2u);
  EXPECT_EQ(Last().kind, EventKind::kThreadName);
  EXPECT_EQ(Last().count, 2u);
  EXPECT_EQ(Last().text, "after");
}

TEST_F(ThreadNotesTest, ExitIsLoggedOnceUntilForgotten) {
  notes_.Exit(10);
  notes_.Exit(11);
  EXPECT_EQ(writer_.events.size(), 1u);
  EXPECT_EQ(Last().count, 10u);
  notes_.ForgetExit();
  notes_.Exit(12);
  EXPECT_EQ(writer_.events.size(), 2u);
}

TEST_F(ThreadNotesTest, SliceTellsTimesAndProcessor) {
  notes_.Slice(4, kSecond, kSecond - 5);
  ASSERT_EQ(writer_.events.size(), 1u);  // no change of processor to report yet
  EXPECT_EQ(Last().kind, EventKind::kSlice);
  EXPECT_EQ(Last().sequence, 1u);
  ASSERT_EQ(Last().arguments.size(), 3u);
  EXPECT_EQ(Last().arguments[0], kSecond);
  EXPECT_EQ(Last().arguments[1], kSecond - 5);
  EXPECT_LT(Last().arguments[2], 1u << 20);
}

TEST_F(ThreadNotesTest, MoveToAnotherProcessorIsLoggedBeforeTheSlice) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  if (CPU_COUNT(&all) < 2) GTEST_SKIP() << "one processor only";
  std::vector<int> processors;
  for (int i = 0; i < CPU_SETSIZE && processors.size() < 2; ++i) {
    if (CPU_ISSET(i, &all)) processors.push_back(i);
  }
  uint64_t now_ns = kSecond;
  for (const int processor : processors) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    notes_.Slice(4, now_ns += kSecond, 0);
  }
  sched_setaffinity(0, sizeof(all), &all);
  ASSERT_EQ(writer_.events.size(), 3u);
  EXPECT_EQ(writer_.events[1].kind, EventKind::kSchedule);
  EXPECT_EQ(writer_.events[1].arguments[1], static_cast<uint64_t>(processors[1]));
  EXPECT_EQ(writer_.events[1].arguments[2], static_cast<uint64_t>(processors[0]));
  EXPECT_EQ(Last().kind, EventKind::kSlice);
}

TEST_F(ThreadNotesTest, TransitionsAreLoggedWithTheStateTheyLeadTo) {
  const uint64_t arguments[6] = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(notes_.SystemCall(20, 39, arguments, -4), 1u);
  EXPECT_EQ(Last().kind, EventKind::kSyscall);
  EXPECT_EQ(Last().count, 21u);
  EXPECT_EQ(Last().number, 39);
  EXPECT_EQ(Last().arguments, std::vector<uint64_t>({1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(Last().result, -4);
  EXPECT_EQ(notes_.Exec(21, 59, arguments, "/bin/true"), 2u);
  EXPECT_EQ(Last().kind, EventKind::kExec);
  EXPECT_EQ(Last().text, "/bin/true");
  EXPECT_EQ(notes_.Signal(22, 11, "bytes"), 3u);
  EXPECT_EQ(Last().kind, EventKind::kSignal);
  EXPECT_EQ(Last().count, 23u);
  EXPECT_EQ(Last().number, 11);
}

TEST_F(ThreadNotesTest, ForkIsNotOrderable) {
  notes_.Fork(8, 56, ForkKind::kVfork, 0x4111, 123, /*recorded=*/true);
  EXPECT_EQ(Last().kind, EventKind::kFork);
  EXPECT_EQ(Last().sequence, 0u);
  EXPECT_EQ(Last().arguments, std::vector<uint64_t>({1, 1, 0x4111}));
  EXPECT_EQ(Last().result, 123);
}

}  // namespace
}  // namespace hindsight
