// The recording of a process of several threads as a debug session sees it.

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "keyframes/toys/toy_threads.h"
#include "server/target/replay_target.h"

namespace hindsight {
namespace {

const ToyThreads& Toy() {
  static const auto* const kToy = new ToyThreads();
  return *kToy;
}

constexpr int32_t kMain = ToyThreads::kMain, kSecond = ToyThreads::kSecond,
                  kThird = ToyThreads::kThird;

class ReplayThreadsTest : public testing::Test {
 protected:
  ReplayThreadsTest() : target_(*ReplayTarget::Open(Toy().trace())) {}

  ThreadRef Ref(int32_t thread) { return {Toy().trace()->manifest().pid, thread}; }
  std::vector<int32_t> Tids() {
    std::vector<int32_t> tids;
    for (const ThreadRef& thread : target_->threads()) tids.push_back(thread.tid);
    return tids;
  }
  uint64_t Register(int32_t thread, int number) {
    auto bytes = target_->ReadRegister(Ref(thread), number);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    uint64_t value = 0;
    if (bytes.ok()) std::memcpy(&value, bytes->data(), std::min<size_t>(bytes->size(), 8));
    return value;
  }
  RunStop Resume(RunRequest request) {
    request.breakpoints = breakpoints_;
    request.watchpoints = watchpoints_;
    auto event = target_->Resume(request);
    EXPECT_TRUE(event.ok()) << event.status();
    return event.value_or(RunStop{});
  }
  RunStop Step(int32_t thread, Direction direction = Direction::kForward) {
    return Resume({.direction = direction, .thread = thread, .step = true});
  }
  void GoTo(const std::string& where) {
    const absl::Status status = target_->GoTo(where, nullptr);
    ASSERT_TRUE(status.ok()) << status;
  }
  // The command's output, or the message of its failure.
  std::string Monitor(const std::string& command, int32_t selected = kMain) {
    bool moved = false;
    auto output = target_->Monitor(command, Ref(selected), nullptr, &moved);
    return output.ok() ? *output : std::string(output.status().message());
  }

  std::unique_ptr<ReplayTarget> target_;
  std::vector<BreakpointSpec> breakpoints_;
  std::vector<WatchpointSpec> watchpoints_;
};

TEST_F(ReplayThreadsTest, AreListedFromTheirBeginningToTheirEnd) {
  EXPECT_EQ(Tids(), (std::vector<int32_t>{kMain}));
  GoTo(absl::StrCat("thread ", kThird));
  EXPECT_EQ(Tids(), (std::vector<int32_t>{kMain, kSecond, kThird}));
  EXPECT_EQ(Register(kThird, kRegisterRip), Toy().registers(kThird, 0).rip);
  GoTo("end");
  EXPECT_FALSE(absl::c_linear_search(Tids(), kSecond));
  GoTo("start");
  EXPECT_EQ(Tids(), (std::vector<int32_t>{kMain}));
  EXPECT_EQ(target_->ReadRegister(Ref(kSecond), kRegisterRip).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(ReplayThreadsTest, EachStepsByItself) {
  GoTo(absl::StrCat("thread ", kThird));
  for (uint64_t count = 1; count <= 500; ++count) {
    const RunStop event = Step(kThird);
    ASSERT_EQ(event.kind, StopKind::kStep);
    ASSERT_EQ(event.thread, kThird);
    ASSERT_EQ(Register(kThird, kRegisterRip), Toy().registers(kThird, count).rip) << count;
  }
  for (uint64_t count = 500; count-- > 0;) {
    ASSERT_EQ(Step(kThird, Direction::kBackward).kind, StopKind::kStep);
    ASSERT_EQ(Register(kThird, kRegisterRip), Toy().registers(kThird, count).rip) << count;
  }
}

TEST_F(ReplayThreadsTest, EndsOfAThreadEndItsStepsAndMoveNothing) {
  GoTo(absl::StrCat("thread ", kThird));
  const std::string before = Monitor("when");
  EXPECT_EQ(Step(kThird, Direction::kBackward).kind, StopKind::kBegin);
  EXPECT_EQ(Monitor("when"), before);
  EXPECT_TRUE(absl::StrContains(target_->TakeConsoleText(), "thread 12 begins here"));
  GoTo(absl::StrCat("thread ", kThird, " end"));
  EXPECT_EQ(Step(kThird).kind, StopKind::kEnd);
  EXPECT_TRUE(absl::c_linear_search(Tids(), kThird));
}

TEST_F(ReplayThreadsTest, BreakpointsStopAnyThreadOrTheOneThatRunsAlone) {
  breakpoints_ = {{.address = ToyThreads::LockedInstruction()}};
  GoTo("50%");
  bool others = false;
  for (int i = 0; i < 50; ++i) {
    const RunStop event = Resume({.thread = target_->current_thread().tid});
    ASSERT_EQ(event.kind, StopKind::kBreakpoint);
    ASSERT_EQ(Register(event.thread, kRegisterRip), ToyThreads::LockedInstruction());
    ASSERT_EQ(target_->current_thread().tid, event.thread);
    others |= event.thread != kSecond;
    Step(event.thread);
  }
  EXPECT_TRUE(others);
  GoTo("50%");
  for (int i = 0; i < 20; ++i) {
    const RunStop event = Resume({.thread = kSecond, .only_thread = true});
    ASSERT_EQ(event.kind, StopKind::kBreakpoint);
    ASSERT_EQ(event.thread, kSecond);
    Step(kSecond);
  }
}

TEST_F(ReplayThreadsTest, AThreadThatRunsAloneStopsAtItsOwnEnds) {
  GoTo(absl::StrCat("thread ", kThird));
  Step(kThird);
  EXPECT_EQ(Resume({.thread = kThird, .only_thread = true}).kind, StopKind::kEnd);
  EXPECT_EQ(target_->current_thread(), Ref(kThird));
  const RunStop begin =
      Resume({.direction = Direction::kBackward, .thread = kThird, .only_thread = true});
  EXPECT_EQ(begin.kind, StopKind::kBegin);
  EXPECT_EQ(begin.thread, kThird);
  EXPECT_EQ(Register(kThird, kRegisterRip), Toy().registers(kThird, 0).rip);
}

TEST_F(ReplayThreadsTest, ConditionsAreAskedOfTheThreadThatGotThere) {
  GoTo("50%");
  int asked = 0;
  breakpoints_ = {{.address = ToyThreads::LoopHead(), .condition = [&](int32_t thread) {
                     ++asked;
                     EXPECT_EQ(Register(thread, kRegisterRip), ToyThreads::LoopHead());
                     return thread == kThird;
                   }}};
  EXPECT_EQ(Resume({.thread = kMain}).thread, kThird);
  EXPECT_GT(asked, 0);
}

TEST_F(ReplayThreadsTest, WatchpointTellsWhoWrote) {
  watchpoints_ = {{.address = ToyThreads::kRarePage, .length = 8}};
  GoTo("end");
  int hits = 0;
  for (uint64_t moment = Toy().end_moment(); moment-- > 0;) {
    if (!Toy().moments()[moment].changes[4]) continue;
    ++hits;
    const RunStop event = Resume({.direction = Direction::kBackward});
    ASSERT_EQ(event.kind, StopKind::kWatchpoint);
    EXPECT_EQ(event.thread, Toy().moments()[moment].thread);
    EXPECT_EQ(Register(event.thread, kRegisterRip), Toy().moments()[moment].pc);
  }
  EXPECT_GT(hits, 1);
  EXPECT_EQ(Resume({.direction = Direction::kBackward}).kind, StopKind::kBegin);
}

TEST_F(ReplayThreadsTest, JumpsSelectTheThreadThatThePositionBelongsTo) {
  GoTo("60%");
  for (const int32_t thread : {kMain, kSecond, kThird}) {
    Step(thread);
    const std::string when = Monitor("when", thread);
    const std::string position = when.substr(9, when.find(',') - 9);
    GoTo("start");
    GoTo(position);
    EXPECT_EQ(target_->current_thread(), Ref(thread)) << position;
    EXPECT_EQ(Monitor("when", thread), when);
  }
}

TEST_F(ReplayThreadsTest, MonitorListsThreadsAndTheirEvents) {
  GoTo("50%");
  const std::string threads = Monitor("threads", kSecond);
  EXPECT_TRUE(absl::StrContains(threads, "* 31 ")) << threads;
  EXPECT_TRUE(absl::StrContains(threads, "\n  12 ")) << threads;
  EXPECT_TRUE(absl::StrContains(Monitor("events 5"), "\n>"));
  const std::string own = Monitor("events 5 thread 12");
  EXPECT_TRUE(absl::StrContains(own, "[12]")) << own;
  EXPECT_FALSE(absl::StrContains(own, "[31]")) << own;
  GoTo("start");
  EXPECT_TRUE(absl::StrContains(Monitor("events thread"), "the thread began, made by 20"));
  EXPECT_FALSE(absl::StrContains(Monitor("events thread"), " = "));
  EXPECT_EQ(Monitor("events thread 99"), "no thread '99' (see 'monitor threads')");
  EXPECT_EQ(Monitor("events signals"), "no events\n");
  EXPECT_TRUE(absl::StrContains(Monitor("processes"), absl::StrCat("* ", Ref(0).pid)));
}

TEST_F(ReplayThreadsTest, JumpsCanBeInterrupted) {
  const std::atomic<bool> interrupt = true;
  const absl::Status status = target_->GoTo("90%", &interrupt);
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
  EXPECT_TRUE(absl::StrContains(Monitor("when"), "instruction 0, 0%"));
}

TEST_F(ReplayThreadsTest, FunctionsRunInOneCopyForAllThreads) {
  GoTo("50%");
  const uint64_t of_second = Register(kSecond, kRegisterRax);
  const auto write = [&](int32_t thread, uint64_t value) {
    return target_->WriteRegister(Ref(thread), kRegisterRax,
                                  {reinterpret_cast<uint8_t*>(&value), 8});
  };
  ASSERT_TRUE(write(kMain, 111).ok());
  EXPECT_EQ(Register(kMain, kRegisterRax), 111);
  EXPECT_EQ(Register(kSecond, kRegisterRax), of_second) << "the others do not move";
  ASSERT_TRUE(write(kSecond, 222).ok());
  EXPECT_EQ(Register(kMain, kRegisterRax), 111);
  EXPECT_EQ(Register(kSecond, kRegisterRax), 222);
  const uint64_t before = Register(kMain, kRegisterRip);
  EXPECT_EQ(Step(kMain).thread, kMain);
  EXPECT_NE(Register(kMain, kRegisterRip), before);
  EXPECT_EQ(Register(kSecond, kRegisterRax), 222);
  target_->EndDiversion();
  EXPECT_EQ(Register(kSecond, kRegisterRax), of_second);
}

}  // namespace
}  // namespace hindsight
