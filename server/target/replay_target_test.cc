#include "server/target/replay_target.h"

#include <cstring>

#include "gtest/gtest.h"
#include "keyframes/toys/toy_recording.h"
#include "server/target/target_description.h"

namespace hindsight {
namespace {

class ReplayTargetTest : public ::testing::Test {
 protected:
  ReplayTargetTest() : toy_({.iterations = 60, .signal_every = 16, .full_keyframes = true}) {
    auto target = ReplayTarget::Open(toy_.trace());
    EXPECT_TRUE(target.ok()) << target.status();
    target_ = *std::move(target);
    thread_ = target_->current_thread();
  }

  uint64_t Register(int number) {
    auto bytes = target_->ReadRegister(thread_, number);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    uint64_t value = 0;
    if (bytes.ok()) std::memcpy(&value, bytes->data(), std::min<size_t>(bytes->size(), 8));
    return value;
  }
  absl::Status SetRegister(int number, uint64_t value) {
    return target_->WriteRegister(thread_, number, {reinterpret_cast<uint8_t*>(&value), 8});
  }
  uint64_t Word(uint64_t address) {
    uint64_t value = 0;
    auto size = target_->ReadMemory(thread_, address, {reinterpret_cast<uint8_t*>(&value), 8});
    EXPECT_EQ(size.value_or(0), 8);
    return value;
  }
  absl::Status SetWord(uint64_t address, uint64_t value) {
    return target_->WriteMemory(thread_, address, {reinterpret_cast<uint8_t*>(&value), 8});
  }
  RunStop Resume(const RunRequest& request) {
    auto event = target_->Resume(request);
    EXPECT_TRUE(event.ok()) << event.status();
    return event.value_or(RunStop{});
  }
  RunStop Resume(Direction direction, bool step = false) {
    return Resume({.direction = direction,
                   .step = step,
                   .breakpoints = breakpoints_,
                   .watchpoints = watchpoints_,
                   .stop_for_signal = [](int) { return false; }});
  }
  std::string Monitor(const std::string& command) {
    bool moved = false;
    return target_->Monitor(command, thread_, nullptr, &moved).value_or("error");
  }

  ToyRecording toy_;
  std::unique_ptr<ReplayTarget> target_;
  ThreadRef thread_;
  std::vector<BreakpointSpec> breakpoints_;
  std::vector<WatchpointSpec> watchpoints_;
};

TEST_F(ReplayTargetTest, ShowsRecordedRegisters) {
  EXPECT_EQ(Register(kRegisterRip), toy_.states()[0].registers.rip);
  EXPECT_EQ(Register(kRegisterRsp), toy_.states()[0].registers.gpr[kRsp]);
  EXPECT_EQ(target_->ReadRegister({thread_.pid, 99}, 0).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(ReplayTargetTest, StepsBothWays) {
  EXPECT_EQ(Resume(Direction::kForward, true).kind, StopKind::kStep);
  EXPECT_EQ(Register(kRegisterRip), toy_.states()[1].registers.rip);
  EXPECT_EQ(Resume(Direction::kBackward, true).kind, StopKind::kStep);
  EXPECT_EQ(Register(kRegisterRip), toy_.states()[0].registers.rip);
  EXPECT_EQ(Resume(Direction::kBackward, true).kind, StopKind::kBegin);
}

TEST_F(ReplayTargetTest, BreakpointWithCondition) {
  breakpoints_ = {{.address = ToyRecording::LoopHead(),
                   .condition = [this](int32_t) { return Word(ToyRecording::kRare) == 1; }}};
  EXPECT_EQ(Resume(Direction::kForward).kind, StopKind::kBreakpoint);
  EXPECT_EQ(Register(kRegisterRip), ToyRecording::LoopHead());
  EXPECT_EQ(Word(ToyRecording::kRare), 1);
}

TEST_F(ReplayTargetTest, WatchpointBackwardShowsTheOldValue) {
  Resume(Direction::kForward);
  uint64_t last = Word(ToyRecording::kRare);
  watchpoints_ = {{.address = ToyRecording::kRare, .length = 8}};
  RunStop event = Resume(Direction::kBackward);
  EXPECT_EQ(event.kind, StopKind::kWatchpoint);
  EXPECT_EQ(event.address, ToyRecording::kRare);
  EXPECT_NE(Word(ToyRecording::kRare), last);
  Resume(Direction::kForward, true);
  EXPECT_EQ(Word(ToyRecording::kRare), last);
}

TEST_F(ReplayTargetTest, SignalsStopUnlessPassed) {
  RunStop event = Resume(RunRequest{});
  EXPECT_EQ(event.kind, StopKind::kSignal);
  EXPECT_EQ(event.signal, ToyRecording::kSignal);
  EXPECT_EQ(Resume(Direction::kForward).kind, StopKind::kEnd);
}

TEST_F(ReplayTargetTest, EndIsToldOnce) {
  EXPECT_EQ(Resume(Direction::kForward).kind, StopKind::kEnd);
  EXPECT_NE(target_->TakeConsoleText(), "");
  EXPECT_EQ(Resume(Direction::kForward).kind, StopKind::kEnd);
  EXPECT_EQ(target_->TakeConsoleText(), "");
}

TEST_F(ReplayTargetTest, SystemCallsAreCaughtBothWays) {
  RunRequest request = {.stop_for_signal = [](int) { return false; },
                        .stop_for_syscall = [](int64_t) { return true; }};
  RunStop entry = Resume(request);
  EXPECT_EQ(entry.kind, StopKind::kSyscallEntry);
  EXPECT_EQ(Register(kRegisterOrigRax), static_cast<uint64_t>(entry.syscall));
  EXPECT_EQ(Resume(request).kind, StopKind::kSyscallReturn);
  EXPECT_EQ(Register(kRegisterOrigRax), static_cast<uint64_t>(entry.syscall));
  request.direction = Direction::kBackward;
  EXPECT_EQ(Resume(request).kind, StopKind::kSyscallEntry);
}

TEST_F(ReplayTargetTest, WritesGoToACopy) {
  Resume(Direction::kForward, true);
  const uint64_t rip = Register(kRegisterRip), rax = Register(kRegisterRax);
  EXPECT_FALSE(target_->InDiversion());
  ASSERT_TRUE(SetRegister(kRegisterRax, rax + 1).ok());
  EXPECT_TRUE(target_->InDiversion());
  EXPECT_EQ(Register(kRegisterRax), rax + 1);
  Resume(Direction::kForward, true);
  EXPECT_NE(Register(kRegisterRip), rip);
  target_->EndDiversion();
  EXPECT_EQ(Register(kRegisterRip), rip);
  EXPECT_EQ(Register(kRegisterRax), rax);
}

TEST_F(ReplayTargetTest, WritingWhatIsThereBeginsNoDiversion) {
  Resume(Direction::kForward, true);
  EXPECT_TRUE(SetRegister(kRegisterRax, Register(kRegisterRax)).ok());
  EXPECT_TRUE(SetRegister(kRegisterOrigRax, Register(kRegisterOrigRax)).ok());
  EXPECT_TRUE(SetWord(ToyRecording::kCode, Word(ToyRecording::kCode)).ok());
  EXPECT_FALSE(target_->InDiversion());
  EXPECT_EQ(SetWord(0x10, 1).code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(target_->InDiversion()) << "a refused write leaves none";
}

TEST_F(ReplayTargetTest, CopySetAsideIsTakenUpAgain) {
  ASSERT_TRUE(SetWord(ToyRecording::kCode + 0x800, 77).ok());
  target_->SuspendDiversion();
  EXPECT_FALSE(target_->InDiversion());
  EXPECT_NE(Word(ToyRecording::kCode + 0x800), 77) << "the recording is read";
  EXPECT_TRUE(target_->ResumeDiversion());
  EXPECT_EQ(Word(ToyRecording::kCode + 0x800), 77);
  target_->SuspendDiversion();
  Resume(Direction::kForward, true);
  EXPECT_FALSE(target_->ResumeDiversion()) << "moving throws it away";
}

TEST_F(ReplayTargetTest, JumpsAndTellsWhere) {
  EXPECT_EQ(Monitor("when").substr(0, 13), "position 0:0,");
  bool moved = false;
  EXPECT_TRUE(target_->Monitor("goto end", thread_, nullptr, &moved).ok());
  EXPECT_TRUE(moved);
  EXPECT_EQ(Register(kRegisterRip), toy_.states().back().registers.rip);
  EXPECT_TRUE(target_->Monitor("goto end", thread_, nullptr, &moved).ok());
  EXPECT_FALSE(moved);
  EXPECT_TRUE(target_->GoTo("start", nullptr).ok());
  EXPECT_EQ(Register(kRegisterRip), toy_.states()[0].registers.rip);
  EXPECT_TRUE(target_->GoTo("50%", nullptr).ok());
  EXPECT_TRUE(target_->GoTo("snapshot 1", nullptr).ok());
  EXPECT_TRUE(target_->GoTo("1:2", nullptr).ok());
  EXPECT_EQ(Monitor("when").substr(0, 13), "position 1:2,");
}

TEST_F(ReplayTargetTest, ImpossibleCommandsMoveNothing) {
  for (const char* where : {"", "nowhere", "101%", "-1%", "x%", "snapshot", "snapshot 999",
                            "FFFFFFFF:0", "0:FFFFFFFF"}) {
    EXPECT_FALSE(target_->GoTo(where, nullptr).ok()) << where;
  }
  bool moved = false;
  for (const char* command : {"frobnicate", "when now", "events many", "goto"}) {
    EXPECT_FALSE(target_->Monitor(command, thread_, nullptr, &moved).ok()) << command;
    EXPECT_FALSE(moved);
  }
  EXPECT_EQ(Monitor("when").substr(0, 13), "position 0:0,");
}

TEST_F(ReplayTargetTest, HelpNamesEveryCommandAndEachAnswers) {
  std::string help = Monitor("help");
  for (const char* command :
       {"when", "snapshots", "events", "events 3", "info", "maps", "statistics", "discard"}) {
    EXPECT_NE(help.find("monitor " + std::string(command).substr(0, 4)), std::string::npos);
    EXPECT_NE(Monitor(command), "error") << command;
  }
}

}  // namespace
}  // namespace hindsight
