#include "recorder/emulate/thread/call_in_flight.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/sched.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <cstring>

namespace hindsight {
namespace {

// The test's own memory.
bool ReadOwn(uint64_t address, absl::Span<uint8_t> out) {
  std::memcpy(out.data(), reinterpret_cast<const void*>(address), out.size());
  return true;
}

CallInFlight Call(int64_t number, std::array<uint64_t, 6> arguments = {}) {
  RegisterFile registers;
  registers.gpr[kRax] = static_cast<uint64_t>(number);
  registers.gpr[kRdi] = arguments[0];
  registers.gpr[kRsi] = arguments[1];
  registers.gpr[kRdx] = arguments[2];
  registers.gpr[kR10] = arguments[3];
  registers.gpr[kR8] = arguments[4];
  registers.gpr[kR9] = arguments[5];
  return CallInFlight(registers);
}

TEST(CallInFlightTest, ArgumentsAreInTheOrderOfTheKernel) {
  const CallInFlight call = Call(SYS_mmap, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(call.number(), SYS_mmap);
  for (uint64_t i = 0; i < 6; ++i) EXPECT_EQ(call.arguments()[i], i + 1);
}

TEST(CallInFlightTest, StopsAlternateBetweenEntryAndExit) {
  CallInFlight call = Call(SYS_read);
  EXPECT_FALSE(call.inside());
  EXPECT_FALSE(call.OnSyscallStop(ReadOwn));
  EXPECT_TRUE(call.inside());
  EXPECT_TRUE(call.OnSyscallStop(ReadOwn));
  call.MarkInterrupted();
  EXPECT_TRUE(call.interrupted());
  EXPECT_FALSE(call.OnSyscallStop(ReadOwn));  // it is made again
  EXPECT_FALSE(call.interrupted());
}

TEST(CallInFlightTest, CallsThatLetOthersSeeSomethingAct) {
  EXPECT_TRUE(Call(SYS_unlink).Acts(ReadOwn));
  EXPECT_TRUE(Call(SYS_openat, {0, 0, O_CREAT}).Acts(ReadOwn));
  EXPECT_FALSE(Call(SYS_openat, {0, 0, O_RDONLY}).Acts(ReadOwn));
  EXPECT_FALSE(Call(SYS_read).Acts(ReadOwn));
  struct flock lock = {};
  lock.l_type = F_UNLCK;
  const std::array<uint64_t, 6> arguments = {0, F_SETLKW, reinterpret_cast<uint64_t>(&lock)};
  EXPECT_TRUE(Call(SYS_fcntl, arguments).Acts(ReadOwn));
  lock.l_type = F_WRLCK;
  EXPECT_FALSE(Call(SYS_fcntl, arguments).Acts(ReadOwn));
}

TEST(CallInFlightTest, WhatWaitsForOthersDoesNotAct) {
  for (const int64_t number : {SYS_vfork, SYS_clone, SYS_clone3, SYS_execve}) {
    EXPECT_FALSE(Call(number).Acts(ReadOwn)) << number;
  }
}

TEST(CallInFlightTest, RestartCodesAreNoResultsButOfSigreturn) {
  constexpr int64_t kRestartSys = -512;
  EXPECT_TRUE(Call(SYS_read).IsInterruptedBy(kRestartSys));
  EXPECT_FALSE(Call(SYS_read).IsInterruptedBy(-4));
  EXPECT_FALSE(Call(SYS_rt_sigreturn).IsInterruptedBy(kRestartSys));
}

TEST(CallInFlightTest, SigreturnAndExecChangeAllRegisters) {
  EXPECT_TRUE(Call(SYS_rt_sigreturn).ChangesAllRegisters());
  CallInFlight call = Call(SYS_execve);
  EXPECT_FALSE(call.ChangesAllRegisters());
  call.MarkExec();
  EXPECT_TRUE(call.ChangesAllRegisters());
}

TEST(CallInFlightTest, CloneFlagsAreAnArgumentOrInMemoryAsItWasAtTheEntry) {
  EXPECT_EQ(Call(SYS_clone, {CLONE_VM}).CloneFlags(), uint64_t{CLONE_VM});
  EXPECT_EQ(Call(SYS_fork, {CLONE_VM}).CloneFlags(), 0u);
  clone_args in_memory = {};
  in_memory.flags = CLONE_VFORK;
  in_memory.child_tid = 0x1234;
  CallInFlight call = Call(SYS_clone3, {reinterpret_cast<uint64_t>(&in_memory), sizeof(in_memory)});
  call.OnSyscallStop(ReadOwn);
  in_memory = {};
  EXPECT_EQ(call.CloneFlags(), uint64_t{CLONE_VFORK});
  EXPECT_EQ(call.ChildTidAddress(), 0x1234u);
  EXPECT_EQ(Call(SYS_clone, {0, 0, 0, 0x5678}).ChildTidAddress(), 0x5678u);
}

TEST(CallInFlightTest, KindOfForkIsThatOfTheEventOrTheCall) {
  CallInFlight clone = Call(SYS_clone);
  clone.AddFork({.kind = TraceeStopKind::kNewTask, .vfork = true}, 10, true);
  clone.AddFork({.kind = TraceeStopKind::kNewTask}, 11, false);
  ASSERT_EQ(clone.forks().size(), 2u);
  EXPECT_EQ(clone.forks()[0].kind, ForkKind::kVfork);
  EXPECT_TRUE(clone.forks()[0].recorded);
  EXPECT_EQ(clone.forks()[1].kind, ForkKind::kClone);
  EXPECT_EQ(clone.forks()[1].process, 11);
  CallInFlight fork = Call(SYS_fork);
  fork.AddFork({.kind = TraceeStopKind::kNewTask}, 12, true);
  EXPECT_EQ(fork.forks()[0].kind, ForkKind::kFork);
}

TEST(CallInFlightTest, RemoteWritesAreTheVectorsOfTheOtherProcess) {
  char own[4] = {};
  iovec local = {own, sizeof(own)};
  iovec remote[2] = {{reinterpret_cast<void*>(0x1000), 3}, {reinterpret_cast<void*>(0x2000), 1}};
  CallInFlight call = Call(SYS_process_vm_writev, {1, reinterpret_cast<uint64_t>(&local), 1,
                                                   reinterpret_cast<uint64_t>(remote), 2});
  call.OnSyscallStop(ReadOwn);
  const std::vector<MemoryRange> expected = {{0x1000, 3}, {0x2000, 1}};
  EXPECT_EQ(call.RemoteWrites(), expected);
}

TEST(CallInFlightTest, ExecByAnotherThreadIsItsCallWithoutItsSignals) {
  CallInFlight other = Call(SYS_execveat, {7});
  other.HoldSignal({.kind = TraceeStopKind::kSignal, .signal = 10});
  other.MarkInterrupted();
  CallInFlight call = CallInFlight::OfExec(std::move(other));
  EXPECT_EQ(call.number(), SYS_execveat);
  EXPECT_EQ(call.arguments()[0], 7u);
  EXPECT_TRUE(call.is_exec());
  EXPECT_TRUE(call.inside());
  EXPECT_FALSE(call.interrupted());
  EXPECT_TRUE(call.TakeHeldSignals().empty());
  EXPECT_EQ(CallInFlight::OfExec(std::nullopt).number(), SYS_execve);
}

TEST(CallInFlightTest, HeldSignalsAreTakenInTheirOrder) {
  CallInFlight call = Call(SYS_read);
  call.HoldSignal({.kind = TraceeStopKind::kSignal, .signal = 10});
  call.HoldSignal({.kind = TraceeStopKind::kSignal, .signal = 12});
  const std::vector<TraceeStop> held = call.TakeHeldSignals();
  ASSERT_EQ(held.size(), 2u);
  EXPECT_EQ(held[0].signal, 10);
  EXPECT_EQ(held[1].signal, 12);
  EXPECT_TRUE(call.TakeHeldSignals().empty());
}

TEST(CallInFlightTest, OutputsAreTheBufferThatWasFilled) {
  char buffer[16];
  CallInFlight call = Call(SYS_read, {0, reinterpret_cast<uint64_t>(buffer), sizeof(buffer)});
  call.OnSyscallStop(ReadOwn);
  call.OnSyscallStop(ReadOwn);
  const SyscallOutputs outputs = call.Outputs(5, ReadOwn);
  EXPECT_TRUE(outputs.known);
  ASSERT_FALSE(outputs.written.empty());
  EXPECT_EQ(outputs.written[0].address, reinterpret_cast<uint64_t>(buffer));
}

}  // namespace
}  // namespace hindsight
