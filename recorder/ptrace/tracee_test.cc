#include "recorder/ptrace/tracee.h"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "recorder/process/memory_map.h"
#include "recorder/process/vdso.h"
#include "recorder/ptrace/thread_facts.h"

namespace hindsight {
namespace {

std::unique_ptr<Tracee> LaunchShell(const std::string& script) {
  auto command = LookUpProgram({"/bin/sh", "-c", script});
  EXPECT_TRUE(command.ok()) << command.status();
  auto tracee = Tracee::Launch(*command);
  EXPECT_TRUE(tracee.ok()) << tracee.status();
  return *std::move(tracee);
}

// Runs to the exit, passing signals on; counts what happened on the way.
struct Tally {
  int syscalls = 0, signals = 0, execs = 0;
  int last_signal = 0;
  int wait_status = -1;
};

Tally RunToExit(Tracee* tracee) {
  Tally tally;
  int signal = 0;
  while (true) {
    tracee->Resume(ResumeHow::kSyscall, signal);
    signal = 0;
    const TraceeStop stop = tracee->Wait(nullptr);
    switch (stop.kind) {
      case TraceeStopKind::kSyscall:
        ++tally.syscalls;
        break;
      case TraceeStopKind::kExec:
        ++tally.execs;
        break;
      case TraceeStopKind::kSignal:
        ++tally.signals;
        tally.last_signal = signal = stop.signal;
        break;
      case TraceeStopKind::kExited:
        tally.wait_status = stop.wait_status;
        return tally;
      default:
        ADD_FAILURE() << "unexpected stop";
        return tally;
    }
  }
}

TEST(TraceeTest, StopsAtTheFirstInstructionAndSteps) {
  auto tracee = LaunchShell("exit 7");
  RegisterFile before, after;
  ASSERT_TRUE(tracee->GetRegisters(true, &before));
  EXPECT_EQ(before.cs, 0x33u);
  EXPECT_EQ(before.gpr[kRax], 0u);
  EXPECT_EQ(before.fcw, 0x37fu);
  EXPECT_EQ(before.mxcsr, 0x1f80u);
  EXPECT_TRUE(Is64Bit(tracee->thread()));
  uint8_t code[3];
  ASSERT_TRUE(tracee->memory().Read(before.rip, absl::MakeSpan(code)));
  ASSERT_TRUE(tracee->Resume(ResumeHow::kStep));
  EXPECT_EQ(tracee->Wait(nullptr).kind, TraceeStopKind::kStepped);
  ASSERT_TRUE(tracee->GetRegisters(true, &after));
  EXPECT_NE(after.rip, before.rip);
  EXPECT_EQ(after.rflags & 0x100, 0u);
}

TEST(TraceeTest, RunsToItsExitStatus) {
  auto tracee = LaunchShell("exit 7");
  const Tally tally = RunToExit(tracee.get());
  EXPECT_EQ(WEXITSTATUS(tally.wait_status), 7);
  EXPECT_GT(tally.syscalls, 10);
}

TEST(TraceeTest, ReportsSignalsAndExec) {
  auto tracee = LaunchShell("exec /bin/sh -c 'kill -TERM $$'");
  const Tally tally = RunToExit(tracee.get());
  EXPECT_EQ(tally.execs, 1);
  EXPECT_EQ(tally.last_signal, SIGTERM);
  ASSERT_TRUE(WIFSIGNALED(tally.wait_status));
  EXPECT_EQ(WTERMSIG(tally.wait_status), SIGTERM);
}

TEST(TraceeTest, RegistersGoThereAndBack) {
  auto tracee = LaunchShell("exit 0");
  RegisterFile registers, read;
  ASSERT_TRUE(tracee->GetRegisters(true, &registers));
  for (int i = 0; i < 16; ++i) registers.gpr[i] = 0x1111 * i;
  registers.fs_base = 0x7000;
  registers.rflags |= 0x8d5;
  registers.ftw = 0xff;
  registers.fcw = 0x27f;
  for (int i = 0; i < 8; ++i) {
    registers.st[i][0] = 0x8000000000000000 + i;
    registers.st[i][1] = 0x3fff;
  }
  for (int i = 0; i < 16; ++i) registers.xmm[i][0] = registers.xmm[i][1] = i;
  ASSERT_TRUE(tracee->SetRegisters(registers));
  // A step makes the next GetRegisters ask the kernel; rip lies on an instruction of ld.so's entry
  // (mov %rsp,%rdi), which changes rdi only.
  ASSERT_TRUE(tracee->Resume(ResumeHow::kStep));
  ASSERT_EQ(tracee->Wait(nullptr).kind, TraceeStopKind::kStepped);
  ASSERT_TRUE(tracee->GetRegisters(true, &read));
  registers.rip = read.rip;
  registers.gpr[kRdi] = registers.gpr[kRsp];
  EXPECT_EQ(read, registers);
}

TEST(TraceeTest, SteppingKeepsABlockedSigtrapBlocked) {
  auto tracee = LaunchShell("exit 0");
  sigset_t everything;
  sigfillset(&everything);
  // The test's own mask is what the child inherits.
  sigset_t old;
  pthread_sigmask(SIG_BLOCK, &everything, &old);
  auto blocked = LaunchShell("exit 0");
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  const uint64_t mask = blocked->signals().mask();
  EXPECT_NE(mask & (1 << (SIGTRAP - 1)), 0u);
  ASSERT_TRUE(blocked->Resume(ResumeHow::kStep));
  ASSERT_EQ(blocked->Wait(nullptr).kind, TraceeStopKind::kStepped);
  blocked->signals().Forget();
  EXPECT_EQ(blocked->signals().mask(), mask);
}

TEST(TraceeTest, SeesPendingSignalsUnlessBlocked) {
  auto tracee = LaunchShell("exit 0");
  EXPECT_FALSE(tracee->signals().HasDeliverable());
  kill(tracee->process(), SIGUSR1);
  EXPECT_TRUE(tracee->signals().HasDeliverable());
  EXPECT_FALSE(tracee->signals().Catches(SIGUSR1));
  ASSERT_TRUE(tracee->Resume(ResumeHow::kStep));
  const TraceeStop stop = tracee->Wait(nullptr);
  EXPECT_EQ(stop.kind, TraceeStopKind::kSignal);
  EXPECT_EQ(stop.signal, SIGUSR1);
  EXPECT_EQ(stop.siginfo.size(), sizeof(siginfo_t));
}

TEST(TraceeTest, GroupStopIsObservedAndEnds) {
  auto tracee = LaunchShell("exit 3");
  kill(tracee->process(), SIGSTOP);
  ASSERT_TRUE(tracee->Resume(ResumeHow::kSyscall));
  TraceeStop stop = tracee->Wait(nullptr);
  ASSERT_EQ(stop.kind, TraceeStopKind::kSignal);
  ASSERT_TRUE(tracee->Resume(ResumeHow::kSyscall, stop.signal));
  stop = tracee->Wait(nullptr);
  ASSERT_EQ(stop.kind, TraceeStopKind::kGroupStop);
  ASSERT_TRUE(tracee->Listen());
  kill(tracee->process(), SIGCONT);
  stop = tracee->Wait(nullptr);
  EXPECT_EQ(stop.kind, TraceeStopKind::kContinued);
  const Tally tally = RunToExit(tracee.get());
  EXPECT_EQ(WEXITSTATUS(tally.wait_status), 3);
}

TEST(TraceeTest, StopsAnewAndSaysWhetherJobControlHasStoppedIt) {
  auto tracee = LaunchShell("exit 3");
  RegisterFile before, after;
  ASSERT_TRUE(tracee->GetRegisters(/*vectors=*/true, &before));
  EXPECT_FALSE(tracee->StopAnew().has_value());
  kill(tracee->process(), SIGSTOP);
  ASSERT_TRUE(tracee->Resume(ResumeHow::kSyscall));
  ASSERT_TRUE(tracee->Resume(ResumeHow::kSyscall, tracee->Wait(nullptr).signal));
  ASSERT_EQ(tracee->Wait(nullptr).kind, TraceeStopKind::kGroupStop);
  std::optional<TraceeStop> stop = tracee->StopAnew();
  ASSERT_TRUE(stop.has_value());
  EXPECT_EQ(stop->kind, TraceeStopKind::kGroupStop);
  EXPECT_EQ(stop->signal, SIGSTOP);
  kill(tracee->process(), SIGCONT);
  EXPECT_FALSE(tracee->StopAnew().has_value());
  ASSERT_TRUE(tracee->GetRegisters(/*vectors=*/true, &after));
  EXPECT_EQ(before.rip, after.rip);
  EXPECT_EQ(WEXITSTATUS(RunToExit(tracee.get()).wait_status), 3);
}

TEST(TraceeTest, VanishedProcessSaysSo) {
  auto tracee = LaunchShell("exit 0");
  kill(tracee->process(), SIGKILL);
  tracee->Resume(ResumeHow::kStep);
  const TraceeStop stop = tracee->Wait(nullptr);
  ASSERT_EQ(stop.kind, TraceeStopKind::kExited);
  EXPECT_EQ(WTERMSIG(stop.wait_status), SIGKILL);
  RegisterFile registers;
  EXPECT_FALSE(tracee->GetRegisters(true, &registers));
}

TEST(TraceeTest, UsesTimeThatTheKernelCounts) {
  auto tracee = LaunchShell("exit 7");
  const MemoryMap map = MemoryMap::OfProcess(tracee->ProcPath("maps"));
  ProcMemFile memory(tracee->process());
  const auto patches = PatchVdso(map, &memory);
  ASSERT_TRUE(patches.ok()) << patches.status();
  const std::optional<uint64_t> loop = FindVdsoLoop(*patches);
  ASSERT_TRUE(loop.has_value());
  RegisterFile before, after;
  ASSERT_TRUE(tracee->GetRegisters(true, &before));
  clockid_t clock;
  ASSERT_EQ(clock_getcpuclockid(tracee->process(), &clock), 0);
  timespec used_before, used_after;
  ASSERT_EQ(clock_gettime(clock, &used_before), 0);
  tgkill(tracee->process(), tracee->thread(), SIGUSR1);
  uint64_t used = 0;
  while (used < 30'000'000) {
    const uint64_t some = tracee->UseTime(*loop, 5'000'000);
    ASSERT_GT(some, 0u);
    used += some;
  }
  ASSERT_EQ(clock_gettime(clock, &used_after), 0);
  const double counted = static_cast<double>(used_after.tv_sec - used_before.tv_sec) * 1e9 +
                         static_cast<double>(used_after.tv_nsec - used_before.tv_nsec);
  EXPECT_GT(counted, 25e6);
  tracee->ForgetRegisters();
  ASSERT_TRUE(tracee->GetRegisters(true, &after));
  EXPECT_EQ(std::memcmp(&before, &after, sizeof(before)), 0);
  EXPECT_TRUE(tracee->signals().HasDeliverable());
  const Tally tally = RunToExit(tracee.get());
  EXPECT_EQ(tally.last_signal, SIGUSR1);
}

TEST(TraceeTest, MemoryIsReadAndWrittenInPieces) {
  auto tracee = LaunchShell("exit 0");
  RegisterFile registers;
  ASSERT_TRUE(tracee->GetRegisters(false, &registers));
  const uint64_t stack = registers.gpr[kRsp] - 64;
  uint8_t a[8] = {1, 2, 3, 4, 5, 6, 7, 8}, b[8] = {};
  EXPECT_TRUE(tracee->memory().Write(stack, a));
  const MemoryPiece pieces[] = {{stack, b, 8}, {0x10, b, 8}, {stack, b, 8}};
  EXPECT_EQ(tracee->memory().ReadPieces(pieces), 1u);
  EXPECT_EQ(b[7], 8);
  EXPECT_FALSE(tracee->memory().Write(registers.rip, a));
}

// Which are moved as one.
TEST(TraceeTest, PiecesSideBySideAreCountedOneByOne) {
  auto tracee = LaunchShell("exit 0");
  RegisterFile registers;
  ASSERT_TRUE(tracee->GetRegisters(false, &registers));
  const MemoryMap map = MemoryMap::OfProcess(tracee->ProcPath("maps"));
  const MapRegion* const stack = map.Find(registers.gpr[kRsp]);
  ASSERT_NE(stack, nullptr);
  constexpr size_t kPieces = 6, kReadable = 3;
  const uint64_t first = stack->end - kReadable * kPageBytes;
  std::vector<uint8_t> bytes(kPieces * kPageBytes, 0xee), single(kPageBytes);
  std::vector<MemoryPiece> pieces;
  for (size_t i = 0; i < kPieces; ++i) {
    pieces.push_back({first + i * kPageBytes, &bytes[i * kPageBytes], kPageBytes});
  }
  EXPECT_EQ(tracee->memory().ReadPieces(pieces), kReadable);
  for (size_t i = 0; i < kReadable; ++i) {
    ASSERT_TRUE(tracee->memory().Read(first + i * kPageBytes, absl::MakeSpan(single)));
    EXPECT_EQ(std::memcmp(single.data(), &bytes[i * kPageBytes], kPageBytes), 0) << i;
  }
  EXPECT_EQ(bytes[kReadable * kPageBytes], 0xee);
  EXPECT_EQ(tracee->memory().WritePieces(pieces), kReadable);
  // The last one ends in the middle of what can be read.
  const MemoryPiece straddling[] = {{stack->end - 16, bytes.data(), 8},
                                    {stack->end - 8, bytes.data() + 8, 16}};
  EXPECT_EQ(tracee->memory().ReadPieces(straddling), 1u);
}

}  // namespace
}  // namespace hindsight
