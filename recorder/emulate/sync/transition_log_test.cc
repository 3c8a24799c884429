#include "recorder/emulate/sync/transition_log.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include <cstring>
#include <optional>

#include "recorder/emulate/pager/process_pager_fixture.h"

namespace hindsight {
namespace {

constexpr uint64_t kFrame = 0x7000;

class TransitionLogTest : public ProcessPagerTest {
 protected:
  void SetUp() override {
    ProcessPagerTest::SetUp();
    RegisterFile registers;
    ASSERT_TRUE(tracee_->GetRegisters(true, &registers));
    cpu_->SetRegisters(registers);
    cpu_->set_count(5);
    sync_.emplace(pager_.get(), log_.get(), registers);
    sync_->Start(cpu_.get(), MemoryModel::kKernel);
    notes_.emplace(log_.get(), &scheduling_);
    transitions_.emplace(&*notes_, &*sync_);
  }

  CallInFlight Call(int64_t number) {
    RegisterFile registers = sync_->registers();
    registers.gpr[kRax] = static_cast<uint64_t>(number);
    return CallInFlight(registers);
  }
  // The registers after a call that returned `result`.
  RegisterFile After(uint64_t result) {
    RegisterFile registers = sync_->registers();
    registers.gpr[kRax] = result;
    registers.rip += 2;
    return registers;
  }
  // The frame of a handler, in which these registers are saved.
  static ReadMemory Frame(uint64_t rip, uint64_t rax) {
    ucontext_t context = {};
    context.uc_mcontext.gregs[REG_RIP] = static_cast<greg_t>(rip);
    context.uc_mcontext.gregs[REG_RAX] = static_cast<greg_t>(rax);
    return [context](uint64_t address, absl::Span<uint8_t> out) {
      if (address < kFrame || address + out.size() > kFrame + sizeof(context)) return false;
      std::memcpy(out.data(), reinterpret_cast<const uint8_t*>(&context) + (address - kFrame),
                  out.size());
      return true;
    };
  }
  template <typename T>
  const T& LastRecord() const {
    return std::get<T>(writer_.records.back().body);
  }

  ThreadScheduling scheduling_{1, 1};
  std::optional<SyncPoint> sync_;
  std::optional<ThreadNotes> notes_;
  std::optional<TransitionLog> transitions_;
};

TEST_F(TransitionLogTest, CallHasAnEventAndARecordOfOneNumber) {
  transitions_->SystemCall(Call(SYS_getpid), After(77));
  ASSERT_EQ(writer_.events.size(), 1u);
  EXPECT_EQ(writer_.events[0].kind, EventKind::kSyscall);
  EXPECT_EQ(writer_.events[0].number, SYS_getpid);
  EXPECT_EQ(writer_.events[0].count, 6u);
  EXPECT_EQ(writer_.records.back().count, 5u);
  EXPECT_EQ(LastRecord<SideEffect>().kind, SideEffectKind::kSyscall);
  EXPECT_EQ(LastRecord<SideEffect>().sequence, writer_.events[0].sequence);
  EXPECT_EQ(cpu_->count(), 6u);
  EXPECT_EQ(cpu_->registers().gpr[kRax], 77u);
}

TEST_F(TransitionLogTest, ForksAreInTheStateAfterTheirCall) {
  CallInFlight call = Call(SYS_fork);
  call.AddFork({.kind = TraceeStopKind::kNewTask, .task = 9}, 9, /*recorded=*/true);
  transitions_->SystemCall(call, After(9));
  transitions_->Forks(call);
  ASSERT_EQ(writer_.events.size(), 2u);
  EXPECT_EQ(writer_.events[1].kind, EventKind::kFork);
  EXPECT_EQ(writer_.events[1].count, 6u);
}

TEST_F(TransitionLogTest, ExecIsADiscontinuity) {
  transitions_->Exec(Call(SYS_execve), "/bin/other", After(0));
  EXPECT_EQ(writer_.events.back().kind, EventKind::kExec);
  EXPECT_EQ(LastRecord<Discontinuity>().kind, DiscontinuityKind::kExec);
  EXPECT_EQ(LastRecord<Discontinuity>().sequence, writer_.events.back().sequence);
}

TEST_F(TransitionLogTest, SignalWithoutHandlerChangesNoRegister) {
  const RegisterFile before = cpu_->registers();
  transitions_->Signal({.kind = TraceeStopKind::kSignal, .signal = 17, .siginfo = "info"});
  EXPECT_EQ(Hash(cpu_->registers()), Hash(before));
  EXPECT_EQ(cpu_->count(), 6u);
  EXPECT_EQ(LastRecord<Discontinuity>().signal, 17);
  EXPECT_EQ(LastRecord<Discontinuity>().siginfo, "info");
  EXPECT_EQ(LastRecord<Discontinuity>().sequence, writer_.events.back().sequence);
}

TEST_F(TransitionLogTest, InterruptedCallReturnsWhatTheFrameHas) {
  RegisterFile handler;
  handler.gpr[kRdx] = kFrame;
  const uint64_t next = sync_->registers().rip + 2;
  transitions_->InterruptedCall(Call(SYS_pause), handler, Frame(next, -4));
  EXPECT_EQ(writer_.events.back().kind, EventKind::kSyscall);
  EXPECT_EQ(cpu_->registers().rip, next);
  EXPECT_EQ(cpu_->registers().gpr[kRax], static_cast<uint64_t>(-4));
}

TEST_F(TransitionLogTest, CallThatWillBeMadeAgainIsNotLogged) {
  RegisterFile handler;
  handler.gpr[kRdx] = kFrame;
  transitions_->InterruptedCall(Call(SYS_read), handler, Frame(sync_->registers().rip, 0));
  EXPECT_TRUE(writer_.events.empty());
  handler.gpr[kRdx] = 0;  // its frame cannot be read
  transitions_->InterruptedCall(Call(SYS_read), handler, Frame(0, 0));
  EXPECT_TRUE(writer_.events.empty());
  EXPECT_EQ(cpu_->count(), 5u);
}

}  // namespace
}  // namespace hindsight
