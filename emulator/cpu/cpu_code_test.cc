// Code that changes.

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "emulator/cpu/cpu.h"
#include "emulator/cpu/cpu_fixture.h"

namespace hindsight {
namespace {

TEST_F(CpuTest, ChangedCodeIsExecutedAsChanged) {
  // mov eax,1; syscall
  Code({0xb8, 1, 0, 0, 0, 0x0f, 0x05});
  Start();
  RunTo(~uint64_t{0});
  EXPECT_EQ(Reg(kRax), 1u);
  cpu_->HostPage(kCode)[1] = 2;
  cpu_->ContentsChanged(kCode);
  Start();
  RunTo(~uint64_t{0});
  EXPECT_EQ(Reg(kRax), 2u);
  // A page that lost its rights is asked for again before its code runs.
  pages_[kCode][1] = 3;
  uint64_t page = kCode;
  cpu_->DropRights({&page, 1});
  Start();
  RunTo(~uint64_t{0});
  EXPECT_EQ(Reg(kRax), 3u);
}

TEST_F(CpuTest, OnlyTheLinesNamedAreLookedAtAgain) {
  // mov eax,1; jmp +57 (to the next line): mov ecx,1; syscall
  Code({0xb8, 1, 0, 0, 0, 0xeb, 57});
  Code({0xb9, 1, 0, 0, 0, 0x0f, 0x05}, 64);
  Start();
  RunTo(~uint64_t{0});
  for (int line : {0, 1}) {
    cpu_->HostPage(kCode)[64 * line + 1] = 2;
    cpu_->ContentsChanged(kCode, uint64_t{1} << line);
    Start();
    RunTo(~uint64_t{0});
    EXPECT_EQ(Reg(kRax), 2u);
    EXPECT_EQ(Reg(kRcx), line == 0 ? 1u : 2u);
  }
}

TEST_F(CpuTest, CodeOfAnotherChunkCanChangeToo) {
  // mov edx,0x10000; L: jmp rdx
  constexpr uint64_t kFar = 0x10000;
  pages_[kFar].resize(kPageBytes);
  Code({0xba, 0, 0, 1, 0, 0xff, 0xe2});
  Code({0xb8, 1, 0, 0, 0, 0xeb, 0, 0x0f, 0x05}, 0, kFar);  // mov eax,1; jmp M; M: syscall
  Start();
  EXPECT_EQ(RunTo(~uint64_t{0}).stop, Stop::kSpecial);
  EXPECT_EQ(Reg(kRax), 1u);
  cpu_->HostPage(kFar)[1] = 2;
  cpu_->ContentsChanged(kFar);
  Start();
  EXPECT_EQ(RunTo(~uint64_t{0}).stop, Stop::kSpecial);
  EXPECT_EQ(Reg(kRax), 2u);
  EXPECT_EQ(cpu_->count(), 8u);
}

TEST_F(CpuTest, SelfModifyingCodeRunsExactly) {
  // L: mov eax, 0; inc byte [rip - 10] (the immediate); dec ecx; jnz L; syscall
  Code({0xb8, 0, 0, 0, 0, 0xfe, 0x05, 0xf6, 0xff, 0xff, 0xff, 0xff, 0xc9, 0x75, 0xf1, 0x0f, 0x05});
  registers_.gpr[kRcx] = 2000;
  Start();
  EXPECT_TRUE(RunThroughFaults());
  EXPECT_EQ(cpu_->count(), 8000u);
  EXPECT_EQ(Reg(kRax), 1999u % 256);
  EXPECT_LE(faults_, 10);
}

// Each iteration writes a function, calls it, changes a part of it, calls it again.
TEST_F(CpuTest, GeneratedFunctionsAreExecutedAsWritten) {
  // L: mov byte [rdi],0xb8; mov [rdi+1],ecx; mov byte [rdi+5],0xc3 (mov eax,rcx; ret); call rdi;
  // add rsi,rax; mov dword [rdi+1],7; call rdi; add rsi,rax; dec ecx; jnz L; syscall
  Code({0xc6, 0x07, 0xb8, 0x89, 0x4f, 0x01, 0xc6, 0x47, 0x05, 0xc3, 0xff,
        0xd7, 0x48, 0x01, 0xc6, 0xc7, 0x47, 0x01, 0x07, 0x00, 0x00, 0x00,
        0xff, 0xd7, 0x48, 0x01, 0xc6, 0xff, 0xc9, 0x75, 0xe1, 0x0f, 0x05});
  constexpr uint64_t kTimes = 20'000;
  registers_.gpr[kRcx] = kTimes;
  Start();
  EXPECT_EQ(RunTo(~uint64_t{0}).stop, Stop::kSpecial);
  EXPECT_EQ(cpu_->count(), 14 * kTimes);
  EXPECT_EQ(Reg(kRsi), kTimes * (kTimes + 1) / 2 + 7 * kTimes);
}

// The same with functions that write to memory themselves.
TEST_F(CpuTest, GeneratedFunctionsMayUseTheStack) {
  // L: mov word [rdi],0xb853; mov [rdi+2],ecx; mov word [rdi+6],0xc35b (push rbx; mov eax,rcx;
  // pop rbx; ret); call rdi; add rsi,rax; mov dword [rdi+2],7; call rdi; add rsi,rax; dec ecx;
  // jnz L; syscall
  Code({0x66, 0xc7, 0x07, 0x53, 0xb8, 0x89, 0x4f, 0x02, 0x66, 0xc7, 0x47, 0x06, 0x5b,
        0xc3, 0xff, 0xd7, 0x48, 0x01, 0xc6, 0xc7, 0x47, 0x02, 0x07, 0x00, 0x00, 0x00,
        0xff, 0xd7, 0x48, 0x01, 0xc6, 0xff, 0xc9, 0x75, 0xdd, 0x0f, 0x05});
  constexpr uint64_t kTimes = 2'000;
  registers_.gpr[kRcx] = kTimes;
  for (uint64_t where : {kData, kStack + 0x900}) {
    registers_.gpr[kRdi] = where;
    Restart();
    EXPECT_TRUE(RunThroughFaults());
    EXPECT_EQ(cpu_->count(), 18 * kTimes);
    EXPECT_EQ(Reg(kRsi), kTimes * (kTimes + 1) / 2 + 7 * kTimes);
    EXPECT_LE(faults_, 10);
  }
}

TEST_F(CpuTest, FunctionsAppendedToAPageLeaveTheOthersAsTheyAre) {
  // L: mov byte [rdi],0xb8; mov [rdi+1],ecx; mov byte [rdi+5],0xc3; call rdi; add rsi,rax;
  // call rbx (the first); add rsi,rax; add rdi,16; dec ecx; jnz L; syscall
  Code({0xc6, 0x07, 0xb8, 0x89, 0x4f, 0x01, 0xc6, 0x47, 0x05, 0xc3, 0xff, 0xd7, 0x48, 0x01, 0xc6,
        0xff, 0xd3, 0x48, 0x01, 0xc6, 0x48, 0x83, 0xc7, 0x10, 0xff, 0xc9, 0x75, 0xe4, 0x0f, 0x05});
  registers_.gpr[kRcx] = 250;
  registers_.gpr[kRbx] = kData;
  Start();
  EXPECT_EQ(RunTo(~uint64_t{0}).stop, Stop::kSpecial);
  EXPECT_EQ(cpu_->count(), 250 * 14u);
  EXPECT_EQ(Reg(kRsi), 250u * 251 / 2 + 250 * 250);
}

TEST_F(CpuTest, ATrampolineOnTheStackCostsNoFaultPerCall) {
  // The stack's page holds a function, and what calls it pushes to the same page.
  Code({0x48, 0xff, 0xc0, 0xc3}, 0x900, kStack);  // inc rax; ret
  // L: call rdi; dec ecx; jnz L; syscall
  Code({0xff, 0xd7, 0xff, 0xc9, 0x75, 0xfa, 0x0f, 0x05});
  registers_.gpr[kRdi] = kStack + 0x900;
  registers_.gpr[kRcx] = 1'000'000;
  Start();
  EXPECT_EQ(RunTo(~uint64_t{0}).stop, Stop::kSpecial);
  EXPECT_EQ(Reg(kRax), 1'000'000u);
  EXPECT_EQ(cpu_->count(), 5'000'000u);
}

TEST_F(CpuTest, AnInstructionOnTwoPagesChangesWithEither) {
  constexpr uint64_t kNext = kCode + kPageBytes;
  pages_[kNext].resize(kPageBytes);
  // The last two bytes of the page: mov eax,imm32; the immediate and `syscall` follow on the next.
  Code({0xb8, 1}, kPageBytes - 2);
  Code({0, 0, 0, 0x0f, 0x05}, 0, kNext);
  registers_.rip = kNext - 2;
  Start();
  RunTo(~uint64_t{0});
  EXPECT_EQ(Reg(kRax), 1u);
  for (bool step : {false, true}) {
    Restart();
    auto run = [&] { step ? cpu_->Step() : RunTo(~uint64_t{0}); };
    run();
    cpu_->HostPage(kNext)[0] = 1;
    cpu_->ContentsChanged(kNext, 1);
    Start();
    run();
    EXPECT_EQ(Reg(kRax), 0x101u);
    cpu_->HostPage(kCode)[kPageBytes - 1] = 2;
    cpu_->ContentsChanged(kCode, uint64_t{1} << 63);
    Start();
    run();
    EXPECT_EQ(Reg(kRax), 0x102u);
  }
}

// Generated code runs on after a refused write, to the end of its block, on a page that is then
// rolled back: nothing translated from what was there in the meantime may stay.
TEST_F(CpuTest, CodeWrittenByARefusedWriteIsNeverExecuted) {
  Code({0xb8, 1, 0, 0, 0, 0x0f, 0x05}, 0, kData);  // mov eax,1; syscall
  Code({0xc6, 0x47, 0x01, 0x02, 0xff, 0xe7});      // mov byte [rdi+1],2; jmp rdi
  read_only_.insert(kData);
  for (int i = 0; i < 3; ++i) {
    Start();
    cpu_->set_count(0);
    const RunResult refused = RunTo(~uint64_t{0});
    EXPECT_EQ(refused.stop, Stop::kFault);
    EXPECT_EQ(Data(0) & 0xffff, 0x01b8u);
    RegisterFile there = registers_;
    there.rip = kData;
    cpu_->SetRegisters(there);
    EXPECT_EQ(RunTo(~uint64_t{0}).stop, Stop::kSpecial);
    EXPECT_EQ(Reg(kRax), 1u);
  }
}

// Another thread's change arrives while code of that page runs: with a page fault.
class ImportedCodeTest : public CpuTest {
 protected:
  bool OnMissing(uint64_t page, Access access) override {
    if (page == kData && armed_) {
      cpu_->HostPage(kCode)[changed_] = 5;
      cpu_->ContentsChanged(kCode, uint64_t{1} << (changed_ / 64));
    }
    return CpuTest::OnMissing(page, access);
  }
  bool armed_ = false;
  size_t changed_ = 0;
};

TEST_F(ImportedCodeTest, CodeThatArrivesWhileItRunsIsExecuted) {
  // mov rbx,[rdi]; jmp M; M: mov eax,1; syscall
  Code({0x48, 0x8b, 0x1f, 0xeb, 0x00, 0xb8, 1, 0, 0, 0, 0x0f, 0x05});
  changed_ = 6;
  for (armed_ = false;; armed_ = true) {
    Restart();
    const uint64_t data = kData;
    cpu_->DropRights({&data, 1});
    RunResult result = RunTo(~uint64_t{0});
    if (result.stop == Stop::kFault) {  // allowed; then steps must be right
      EXPECT_EQ(result.block_count, 0u);
      Restart();
      cpu_->DropRights({&data, 1});
      while (cpu_->Step().stop == Stop::kLimit) continue;
    }
    EXPECT_EQ(cpu_->count(), 3u);
    EXPECT_EQ(Reg(kRax), armed_ ? 5u : 1u);
    if (armed_) break;
  }
}

}  // namespace
}  // namespace hindsight
