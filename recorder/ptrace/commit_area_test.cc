// A thread whose tracer lets go of it in the middle of a commit goes on in the state before the
// commit or in that after it, with registers and memory of the same.

#include "recorder/ptrace/commit_area.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "recorder/process/memory_map.h"
#include "recorder/process/vdso.h"
#include "recorder/ptrace/attach.h"
#include "recorder/ptrace/tracee.h"

namespace hindsight {
namespace {

constexpr uint64_t kOld = 0x1111111111111111, kNew = 0x2222222222222222;
constexpr int kWords = 4;

// Shared with the child: what it waits for, and what it finds.
struct Shared {
  std::atomic<uint64_t> spins, go, done;
  uint64_t rbx, xmm, mask;
  uint64_t memory[kWords];
};

uint64_t child_memory[kWords] = {kOld, kOld, kOld, kOld};

// Spins with kOld in rbx and xmm9 until told to go on; then says what is there.
[[noreturn]] void RunChild(Shared* shared) {
  uint64_t rbx = kOld, xmm = 0;
  asm volatile(
      "movq %%rbx, %%xmm9\n"
      "1: incq (%[spins])\n"
      "cmpq $0, (%[go])\n"
      "je 1b\n"
      "movq %%xmm9, %[xmm]\n"
      : "+b"(rbx), [xmm] "=&r"(xmm)
      : [spins] "r"(&shared->spins), [go] "r"(&shared->go)
      : "xmm9", "memory");
  shared->rbx = rbx;
  shared->xmm = xmm;
  sigset_t mask;
  sigprocmask(SIG_BLOCK, nullptr, &mask);
  std::memcpy(&shared->mask, &mask, sizeof(shared->mask));
  std::memcpy(shared->memory, child_memory, sizeof(shared->memory));
  shared->done = 1;
  _exit(0);
}

// In a process that has been attached to.
std::unique_ptr<CommitArea> InstallArea(pid_t process) {
  ProcMemFile memory(process);
  const auto patches =
      PatchVdso(MemoryMap::OfProcess("/proc/" + std::to_string(process) + "/maps"), &memory);
  if (!patches.ok()) return nullptr;
  const auto call = FindVdsoCall(*patches);
  if (!call.has_value()) return nullptr;
  auto area = CommitArea::Install(process, *call);
  EXPECT_TRUE(area.ok()) << area.status();
  return area.ok() ? *std::move(area) : nullptr;
}

class CommitAreaTest : public testing::Test {
 protected:
  void SetUp() override {
    shared_ = new (mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                        -1, 0)) Shared();
    sigset_t usr2;
    sigemptyset(&usr2);
    sigaddset(&usr2, SIGUSR2);
    sigprocmask(SIG_BLOCK, &usr2, nullptr);
    child_ = fork();
    if (child_ == 0) RunChild(shared_);
    sigprocmask(SIG_UNBLOCK, &usr2, nullptr);
    while (shared_->spins == 0) usleep(100);
    ASSERT_TRUE(AttachToProcess(child_, PTRACE_O_TRACESYSGOOD).ok());
    stack_before_ = Stack();
    area_ = InstallArea(child_);
    ASSERT_NE(area_, nullptr);
    slot_ = *area_->TakeSlot();
    ASSERT_EQ(ptrace(PTRACE_GETREGS, child_, nullptr, &general_), 0);
    vectors_.resize(16384);
    iovec buffer = {vectors_.data(), vectors_.size()};
    ASSERT_EQ(ptrace(PTRACE_GETREGSET, child_, NT_X86_XSTATE, &buffer), 0);
    vectors_.resize(buffer.iov_len);
    ASSERT_EQ(ptrace(PTRACE_GETSIGMASK, child_, sizeof(mask_), &mask_), 0);
  }
  void TearDown() override {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    munmap(shared_, sizeof(*shared_));
  }

  // Of the child, around its stack pointer.
  std::vector<uint8_t> Stack() const {
    constexpr uint64_t kBelow = 8192, kAbove = 64;
    user_regs_struct registers = {};
    EXPECT_EQ(ptrace(PTRACE_GETREGS, child_, nullptr, &registers), 0);
    std::vector<uint8_t> bytes(kBelow + kAbove);
    EXPECT_TRUE(ProcessVmMemory(child_).Read(registers.rsp - kBelow, absl::MakeSpan(bytes)));
    return bytes;
  }
  size_t Write(absl::Span<const MemoryPiece> pieces) {
    return ProcessVmMemory(child_).WritePieces(pieces);
  }
  void Park() {
    const auto plan = area_->PlanPark(slot_, {general_, vectors_, mask_});
    ASSERT_EQ(Write(plan), plan.size());
    user_regs_struct parked = area_->Parked(slot_, general_);
    const uint64_t all = ~uint64_t{0};
    ASSERT_EQ(ptrace(PTRACE_SETREGS, child_, nullptr, &parked), 0);
    ASSERT_EQ(ptrace(PTRACE_SETSIGMASK, child_, sizeof(all), &all), 0);
  }
  // To kNew everywhere.
  std::vector<MemoryPiece> PlanCommit() {
    ThreadContext after = {general_, vectors_, mask_};
    after.general.rbx = kNew;
    new_vectors_ = vectors_;
    std::memcpy(new_vectors_.data() + 160 + 9 * 16, &kNew, sizeof(kNew));
    after.vectors = new_vectors_;
    pieces_.clear();
    for (uint64_t& word : child_memory) {
      static uint64_t value = kNew;
      pieces_.push_back({reinterpret_cast<uint64_t>(&word), reinterpret_cast<uint8_t*>(&value), 8});
    }
    return area_->PlanCommit(slot_, after, pieces_);
  }
  // The tracer dies; what the child finds then.
  uint64_t LetGo() {
    ptrace(PTRACE_DETACH, child_, nullptr, nullptr);
    shared_->go = 1;
    int status = 0;
    waitpid(child_, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(shared_->done, 1u);
    EXPECT_EQ(shared_->xmm, shared_->rbx);
    EXPECT_EQ(shared_->mask, mask_);
    for (const uint64_t word : shared_->memory) EXPECT_EQ(word, shared_->rbx);
    return shared_->rbx;
  }

  Shared* shared_ = nullptr;
  pid_t child_ = 0;
  std::vector<uint8_t> stack_before_;  // without the area
  std::unique_ptr<CommitArea> area_;
  int slot_ = 0;
  user_regs_struct general_ = {};
  std::vector<uint8_t> vectors_, new_vectors_;
  uint64_t mask_ = 0;
  std::vector<MemoryPiece> pieces_;
};

// Mapping and unmapping the area take some of the thread's stack for so long.
TEST_F(CommitAreaTest, StackIsPutBackAfterCallsForTheRecorder) {
  EXPECT_EQ(Stack(), stack_before_);
  ASSERT_FALSE(stack_before_.empty());
  area_->Remove(child_);
  EXPECT_EQ(Stack(), stack_before_);
}

TEST_F(CommitAreaTest, AParkedThreadGoesOnAsItWas) {
  Park();
  EXPECT_EQ(LetGo(), kOld);
}

// The commit is cut off after each of its pieces.
class CutCommitTest : public CommitAreaTest, public testing::WithParamInterface<int> {};

TEST_P(CutCommitTest, IsDoneOrNotDone) {
  Park();
  const std::vector<MemoryPiece> plan = PlanCommit();
  constexpr int kBeforeState = 5;  // journal, frame, slot, two words of the journal's place
  ASSERT_EQ(plan.size(), kBeforeState + 1 + kWords + 2);
  ASSERT_LE(GetParam(), static_cast<int>(plan.size()));
  const auto part = absl::MakeSpan(plan).first(GetParam());
  ASSERT_EQ(Write(part), part.size());
  EXPECT_EQ(LetGo(), GetParam() > kBeforeState ? kNew : kOld);
}

INSTANTIATE_TEST_SUITE_P(EveryPiece, CutCommitTest, testing::Range(0, 13));

TEST_F(CommitAreaTest, WaitsForAnothersCommit) {
  Park();
  const uint64_t state = area_->address() + 4096;
  uint64_t other = 2, none = 0;
  ASSERT_EQ(Write({{state, reinterpret_cast<uint8_t*>(&other), 8}}), 1u);
  ptrace(PTRACE_DETACH, child_, nullptr, nullptr);
  shared_->go = 1;
  usleep(50'000);
  EXPECT_EQ(shared_->done, 0u);
  ASSERT_EQ(Write({{state, reinterpret_cast<uint8_t*>(&none), 8}}), 1u);
  while (shared_->done == 0) usleep(1000);
  EXPECT_EQ(shared_->rbx, kOld);
}

TEST_F(CommitAreaTest, CommitsThroughATraceeAndResumesWithNewRegisters) {
  std::unique_ptr<Tracee> tracee = Tracee::Adopt(child_, child_);
  tracee->UseCommitArea(area_.get());
  RegisterFile registers;
  ASSERT_TRUE(tracee->GetRegisters(/*vectors=*/true, &registers));
  registers.gpr[kRbx] = kNew;
  registers.xmm[9][0] = kNew;
  PlanCommit();
  ASSERT_TRUE(tracee->Commit(pieces_, registers));
  user_regs_struct real;
  ASSERT_EQ(ptrace(PTRACE_GETREGS, child_, nullptr, &real), 0);
  EXPECT_GE(real.rip, area_->address());
  EXPECT_LT(real.rip, area_->address() + 4096);
  ASSERT_TRUE(tracee->SetRegisters(registers));
  ASSERT_EQ(ptrace(PTRACE_GETREGS, child_, nullptr, &real), 0);
  EXPECT_EQ(real.rip, registers.rip);
  area_->Remove(child_);
  EXPECT_EQ(LetGo(), kNew);
}

TEST_F(CommitAreaTest, ASpinningThreadGoesOnAfterAWhile) {
  Park();
  user_regs_struct spinning = area_->Spinning(slot_, general_);
  EXPECT_GT(spinning.rcx, uint64_t{1} << 30);
  spinning.rcx = 1000;
  ASSERT_EQ(ptrace(PTRACE_SETREGS, child_, nullptr, &spinning), 0);
  EXPECT_EQ(LetGo(), kOld);
}

TEST_F(CommitAreaTest, AFullAreaSaysSo) {
  std::vector<MemoryPiece> pieces(1, {0, nullptr, area_->size_bytes()});
  EXPECT_TRUE(area_->PlanCommit(slot_, {general_, vectors_, mask_}, pieces).empty());
}

TEST_F(CommitAreaTest, RemovingLeavesNothingBehind) {
  area_->Remove(child_);
  std::ifstream maps("/proc/" + std::to_string(child_) + "/maps");
  for (std::string line; std::getline(maps, line);) {
    EXPECT_NE(std::stoull(line, nullptr, 16), area_->address()) << line;
  }
  EXPECT_EQ(LetGo(), kOld);
}

// A process that sleeps, and whose tracer dies while it is parked.
class SleepingTest : public testing::Test {
 protected:
  static constexpr int64_t kSleepNs = 400'000'000, kPart = kSleepNs / 4;

  // What a sleeper finds: what nanosleep returned, after how long, and what it said is left.
  struct Found {
    int result, error;
    int64_t slept_ns, left_ns;
    int handled;
  };

  static int64_t Ns(const timespec& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; }
  static int64_t Now() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return Ns(now);
  }

  [[noreturn]] static void Sleep(Found* found) {
    static volatile int handled = 0;
    struct sigaction action = {};
    action.sa_handler = [](int) { handled = handled + 1; };
    sigaction(SIGUSR1, &action, nullptr);
    const timespec time = {0, kSleepNs};
    timespec left = {};
    const int64_t before = Now();
    found->result = nanosleep(&time, &left);
    found->error = found->result == 0 ? 0 : errno;
    found->slept_ns = Now() - before;
    found->left_ns = Ns(left);
    found->handled = handled;
    _exit(0);
  }

  void SetUp() override {
    found_ = new (mmap(nullptr, sizeof(Found), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                       -1, 0)) Found();
    child_ = fork();
    if (child_ == 0) Sleep(found_);
    usleep(kPart / 1000);
    ASSERT_TRUE(AttachToProcess(child_, PTRACE_O_TRACESYSGOOD).ok());
    area_ = InstallArea(child_);
    ASSERT_NE(area_, nullptr);
    tracee_ = Tracee::Adopt(child_, child_);
    tracee_->UseCommitArea(area_.get());
    ASSERT_TRUE(tracee_->Park());
  }
  void TearDown() override {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    munmap(found_, sizeof(*found_));
  }

  void LetGo() const { ptrace(PTRACE_DETACH, child_, nullptr, nullptr); }
  void ExpectEnds() const {
    int status = -1;
    waitpid(child_, &status, 0);
    EXPECT_EQ(status, 0);
  }

  Found* found_ = nullptr;
  pid_t child_ = 0;
  std::unique_ptr<CommitArea> area_;
  std::unique_ptr<Tracee> tracee_;
};

TEST_F(SleepingTest, SleepsForTheRestOfItsTime) {
  usleep(kPart / 1000);
  LetGo();
  ExpectEnds();
  EXPECT_EQ(found_->result, 0);
  EXPECT_GE(found_->slept_ns, kSleepNs);
  EXPECT_LT(found_->slept_ns, kSleepNs + kPart);
}

TEST_F(SleepingTest, IsWokenByASignalAsEver) {
  LetGo();
  usleep(kPart / 1000);
  kill(child_, SIGUSR1);
  ExpectEnds();
  EXPECT_EQ(found_->result, -1);
  EXPECT_EQ(found_->error, EINTR);
  EXPECT_EQ(found_->handled, 1);
  EXPECT_LT(found_->slept_ns, kSleepNs);
  EXPECT_GT(found_->left_ns, 0);
  EXPECT_LE(found_->left_ns, kSleepNs - kPart);
}

TEST_F(SleepingTest, IsWokenByASignalThatCameBefore) {
  kill(child_, SIGUSR1);
  LetGo();
  ExpectEnds();
  EXPECT_EQ(found_->result, -1);
  EXPECT_EQ(found_->error, EINTR);
  EXPECT_EQ(found_->handled, 1);
}

TEST_F(SleepingTest, SleepsOnAfterAStop) {
  LetGo();
  kill(child_, SIGSTOP);
  waitpid(child_, nullptr, WUNTRACED);
  kill(child_, SIGCONT);
  ExpectEnds();
  EXPECT_EQ(found_->result, 0);
  EXPECT_GE(found_->slept_ns, kSleepNs);
  EXPECT_LT(found_->slept_ns, kSleepNs + kPart);
}

}  // namespace
}  // namespace hindsight
