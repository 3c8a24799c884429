// Small programs, as bytes, in a process of three pages: code, data, stack.

#include "server/target/scratch_process.h"

#include <signal.h>
#include <sys/mman.h>

#include <cstring>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

constexpr uint64_t kCode = 0x400000;
constexpr uint64_t kHeap = 0x500000;
constexpr uint64_t kStack = 0x7ffffff00000;
constexpr uint64_t kUnknown = 0x900000;
constexpr ThreadRef kThread = {77, 77};

class ScratchProcessTest : public ::testing::Test {
 protected:
  ScratchProcessTest() {
    pages_[kCode].resize(kPageBytes, 0xcc);
    pages_[kHeap].resize(kPageBytes, 0);
    pages_[kStack].resize(kPageBytes, 0);
    registers_.rip = kCode;
    registers_.rflags = 0x202;
    registers_.gpr[kRsp] = kStack + 0x800;
    registers_.gpr[kRdi] = kHeap;
    registers_.mxcsr = 0x1f80;
    registers_.fcw = 0x37f;
  }

  // The program; it returns to an address on the stack, where gdb's breakpoint is.
  void Code(std::vector<uint8_t> bytes) {
    std::copy(bytes.begin(), bytes.end(), pages_[kCode].begin());
    uint64_t return_address = kStack + 0x900;
    std::memcpy(&pages_[kStack][0x800], &return_address, 8);
    std::vector<MapRegion> maps = {{.start = kCode,
                                    .end = kCode + kPageBytes,
                                    .protection = PROT_READ | PROT_EXEC,
                                    .inode = 1,
                                    .name = "/program"},
                                   {.start = kHeap,
                                    .end = kHeap + 2 * kPageBytes,
                                    .protection = PROT_READ | PROT_WRITE,
                                    .name = "[heap]"},
                                   {.start = kStack,
                                    .end = kStack + kPageBytes,
                                    .protection = PROT_READ | PROT_WRITE,
                                    .name = "[stack]"}};
    auto process = ScratchProcess::Create(
        kThread, registers_, maps, [this](uint64_t address, absl::Span<uint8_t> out) -> size_t {
          auto page = pages_.find(PageOf(address));
          if (page == pages_.end()) return 0;
          size_t offset = address % kPageBytes;
          size_t size = std::min(out.size(), kPageBytes - offset);
          std::copy_n(page->second.begin() + offset, size, out.begin());
          return size;
        });
    ASSERT_TRUE(process.ok()) << process.status();
    process_ = *std::move(process);
  }

  RunStop Continue() {
    breakpoints_ = {{.address = kStack + 0x900}};
    return process_->Resume({.breakpoints = breakpoints_});
  }
  uint64_t Gpr(int number) { return process_->registers().gpr[number]; }
  uint64_t Word(uint64_t address) {
    uint64_t word = 0;
    EXPECT_EQ(process_->ReadMemory(address, {reinterpret_cast<uint8_t*>(&word), 8}), 8);
    return word;
  }

  std::map<uint64_t, std::vector<uint8_t>> pages_;
  RegisterFile registers_;
  std::vector<BreakpointSpec> breakpoints_;
  std::unique_ptr<ScratchProcess> process_;
};

TEST_F(ScratchProcessTest, FunctionReturnsToBreakpointOnTheStack) {
  // incq (%rdi); mov $42,%eax; ret
  Code({0x48, 0xff, 0x07, 0xb8, 42, 0, 0, 0, 0xc3});
  RunStop event = Continue();
  EXPECT_EQ(event.kind, StopKind::kBreakpoint);
  EXPECT_EQ(event.thread, kThread.tid);
  EXPECT_EQ(process_->registers().rip, kStack + 0x900);
  EXPECT_EQ(Gpr(kRax), 42);
  EXPECT_EQ(Word(kHeap), 1);
  EXPECT_EQ(pages_[kHeap][0], 0) << "the recording is as it was";
}

TEST_F(ScratchProcessTest, FaultStopsExactlyThere) {
  // incq (%rdi); mov 0x900000,%rax; ret
  Code({0x48, 0xff, 0x07, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0x90, 0, 0xc3});
  RunStop event = Continue();
  EXPECT_EQ(event.kind, StopKind::kSignal);
  EXPECT_EQ(event.signal, SIGSEGV);
  EXPECT_EQ(process_->registers().rip, kCode + 3);
  EXPECT_EQ(Word(kHeap), 1);
}

TEST_F(ScratchProcessTest, NothingIsWrittenAtTheEndOfTheAddressSpace) {
  Code({0xc3});
  const std::vector<uint8_t> bytes(16, 1);
  for (const uint64_t address : {~uint64_t{0} - 7, ~uint64_t{0} - 15, ~uint64_t{0} - 100}) {
    EXPECT_TRUE(absl::IsNotFound(process_->WriteMemory(address, bytes))) << address;
  }
  EXPECT_TRUE(process_->WriteMemory(~uint64_t{0}, {}).ok());
}

TEST_F(ScratchProcessTest, WriteToReadOnlyMemoryFaults) {
  // movb $1,0x400000
  Code({0xc6, 0x04, 0x25, 0, 0, 0x40, 0, 1});
  EXPECT_EQ(Continue().signal, SIGSEGV);
  EXPECT_EQ(process_->registers().rip, kCode);
}

TEST_F(ScratchProcessTest, UntouchedAnonymousMemoryIsZero) {
  // mov %rax,0x1000(%rdi); mov 0x1008(%rdi),%rax; ret
  Code({0x48, 0x89, 0x87, 0, 0x10, 0, 0, 0x48, 0x8b, 0x87, 8, 0x10, 0, 0, 0xc3});
  EXPECT_EQ(Continue().kind, StopKind::kBreakpoint);
  EXPECT_EQ(Gpr(kRax), 0);
}

TEST_F(ScratchProcessTest, StackGrows) {
  // movb $1,-0x3000(%rsp); ret
  Code({0xc6, 0x84, 0x24, 0, 0xd0, 0xff, 0xff, 1, 0xc3});
  EXPECT_EQ(Continue().kind, StopKind::kBreakpoint);
}

TEST_F(ScratchProcessTest, OutputBecomesText) {
  std::memcpy(pages_[kHeap].data(), "hello", 5);
  // mov %rdi,%rsi; mov $1,%edi; mov $5,%edx; mov $1,%eax; syscall; ret
  Code({0x48, 0x89, 0xfe, 0xbf, 1, 0, 0, 0, 0xba, 5, 0, 0, 0, 0xb8, 1, 0, 0, 0, 0x0f, 0x05, 0xc3});
  EXPECT_EQ(Continue().kind, StopKind::kBreakpoint);
  EXPECT_EQ(Gpr(kRax), 5);
  EXPECT_EQ(process_->TakeText(), "hello");
}

TEST_F(ScratchProcessTest, OtherSystemCallsFailAndAreTold) {
  // mov $57,%eax (fork); syscall; ret
  Code({0xb8, 57, 0, 0, 0, 0x0f, 0x05, 0xc3});
  EXPECT_EQ(Continue().kind, StopKind::kBreakpoint);
  EXPECT_EQ(static_cast<int64_t>(Gpr(kRax)), -ENOSYS);
  EXPECT_NE(process_->TakeText(), "");
}

TEST_F(ScratchProcessTest, ExitDoesNotEndIt) {
  // mov $231,%eax (exit_group); syscall
  Code({0xb8, 231, 0, 0, 0, 0x0f, 0x05});
  EXPECT_EQ(Continue().kind, StopKind::kSignal);
  EXPECT_EQ(process_->registers().rip, kCode + 5);
}

TEST_F(ScratchProcessTest, MemoryIsGiven) {
  // xor %edi,%edi; mov $4096,%esi; mov $3,%edx; mov $0x22,%r10d; mov $9,%eax (mmap); syscall;
  // movb $7,(%rax); ret
  Code({0x31, 0xff, 0xbe, 0,    0x10, 0, 0, 0xba, 3,    0, 0,    0, 0x41, 0xba, 0x22,
        0,    0,    0,    0xb8, 9,    0, 0, 0,    0x0f, 5, 0xc6, 0, 7,    0xc3});
  EXPECT_EQ(Continue().kind, StopKind::kBreakpoint) << process_->TakeText();
  EXPECT_EQ(Word(Gpr(kRax)), 7);
}

TEST_F(ScratchProcessTest, VectorInstructionsRun) {
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "not on this machine";
  // vpcmpeqd %ymm0,%ymm0,%ymm0; vmovdqu %ymm0,(%rdi); ret
  Code({0xc5, 0xfd, 0x76, 0xc0, 0xc5, 0xfe, 0x7f, 0x07, 0xc3});
  EXPECT_EQ(Continue().kind, StopKind::kBreakpoint) << process_->TakeText();
  EXPECT_EQ(process_->registers().ymm_high[0][1], ~uint64_t{0});
  EXPECT_EQ(Word(kHeap + 24), ~uint64_t{0});
}

TEST_F(ScratchProcessTest, WhatCannotBeKnownIsRefused) {
  // rdrand %eax
  Code({0x0f, 0xc7, 0xf0, 0xc3});
  EXPECT_EQ(Continue().signal, SIGILL);
  EXPECT_EQ(process_->registers().rip, kCode);
  EXPECT_NE(process_->TakeText(), "");
}

TEST_F(ScratchProcessTest, StateIsSavedAndRestoredAsTheLinkerDoes) {
  registers_.xmm[3][0] = 0x1234;
  // fxsave (%rdi); xorps %xmm3,%xmm3; fxrstor (%rdi); ret
  Code({0x0f, 0xae, 0x07, 0x0f, 0x57, 0xdb, 0x0f, 0xae, 0x0f, 0xc3});
  EXPECT_EQ(Continue().kind, StopKind::kBreakpoint) << process_->TakeText();
  EXPECT_EQ(process_->registers().xmm[3][0], 0x1234);
  EXPECT_EQ(Word(kHeap + 160 + 3 * 16), 0x1234);
}

TEST_F(ScratchProcessTest, StepsOneInstruction) {
  Code({0x90, 0x90, 0xc3});
  EXPECT_EQ(process_->Resume({.step = true}).kind, StopKind::kStep);
  EXPECT_EQ(process_->registers().rip, kCode + 1);
}

TEST_F(ScratchProcessTest, StepsOutOfRange) {
  Code({0x90, 0x90, 0x90, 0xc3});
  RunRequest request = {.step = true, .range_start = kCode, .range_end = kCode + 3};
  EXPECT_EQ(process_->Resume(request).kind, StopKind::kStep);
  EXPECT_EQ(process_->registers().rip, kCode + 3);
}

TEST_F(ScratchProcessTest, ConditionDecidesAboutBreakpoint) {
  // nop; incq (%rdi); cmpq $5,(%rdi); jne back to incq; ret
  Code({0x90, 0x48, 0xff, 0x07, 0x48, 0x83, 0x3f, 5, 0x75, 0xf7, 0xc3});
  breakpoints_ = {
      {.address = kCode + 4, .condition = [this](int32_t) { return Word(kHeap) == 3; }}};
  EXPECT_EQ(process_->Resume({.breakpoints = breakpoints_}).kind, StopKind::kBreakpoint);
  EXPECT_EQ(process_->registers().rip, kCode + 4);
  EXPECT_EQ(Word(kHeap), 3);
}

TEST_F(ScratchProcessTest, EndlessLoopIsInterrupted) {
  Code({0xeb, 0xfe});
  std::atomic<bool> interrupt = false;
  RunRequest request = {.interrupt = &interrupt};
  // A condition is the place where a test gets to act while the process runs.
  int rounds = 0;
  breakpoints_ = {{.address = kCode, .condition = [&](int32_t) {
                     if (++rounds == 10) interrupt = true;
                     return false;
                   }}};
  request.breakpoints = breakpoints_;
  EXPECT_EQ(process_->Resume(request).kind, StopKind::kInterrupted);
}

TEST_F(ScratchProcessTest, DebuggerWritesIgnoreProtectionButNotAbsence) {
  Code({0xc3});
  const uint8_t byte[] = {0x55};
  EXPECT_TRUE(process_->WriteMemory(kCode, byte).ok());
  EXPECT_EQ(Word(kCode) & 0xff, 0x55);
  EXPECT_EQ(process_->WriteMemory(kUnknown, byte).code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace hindsight
