#include "emulator/cpu/cpu.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "emulator/cpu/cpu_fixture.h"
#include "emulator/unicorn/fast_stores.h"

namespace hindsight {
namespace {

TEST_F(CpuTest, RunsToASystemCallAndCountsInstructions) {
  CountingLoop(pages_[kCode]);
  registers_.gpr[kRcx] = 1000;
  Start();
  RunResult result = RunTo(~uint64_t{0});
  EXPECT_EQ(result.stop, Stop::kSpecial);
  EXPECT_EQ(cpu_->count(), 3001u);
  EXPECT_EQ(cpu_->pc(), kCode + 9);
  EXPECT_EQ(Data(0), 1000u);
  EXPECT_EQ(missing_, 2);
  EXPECT_EQ(first_writes_, 1);
  EXPECT_EQ(cpu_->next()->policy, Policy::kSyscall);
}

TEST_F(CpuTest, StopsExactlyAtEveryCount) {
  CountingLoop(pages_[kCode]);
  registers_.gpr[kRcx] = 40;
  Start();
  for (uint64_t limit = 1; limit <= 60; ++limit) {
    ASSERT_EQ(RunTo(limit).stop, Stop::kLimit);
    ASSERT_EQ(cpu_->count(), limit);
    ASSERT_EQ(Data(0), (limit + 2) / 3);
  }
}

TEST_F(CpuTest, StepsAgreeWithARun) {
  CountingLoop(pages_[kCode]);
  registers_.gpr[kRcx] = 40;
  Start();
  for (int i = 0; i < 77; ++i) ASSERT_EQ(cpu_->Step().stop, Stop::kLimit);
  RegisterFile stepped = cpu_->registers();
  auto other = Cpu::Create(this);
  std::swap(cpu_, *other);
  Start();
  RunTo(77);
  EXPECT_EQ(cpu_->registers(), stepped);
}

TEST_F(CpuTest, FaultsLeaveNothingBehind) {
  // push rax; nop; div ecx; jmp L; L: syscall
  Code({0x50, 0x90, 0xf7, 0xf1, 0xeb, 0x00, 0x0f, 0x05});
  for (int i = 0; i < 5; ++i) {
    Restart();
    EXPECT_EQ(RunTo(~uint64_t{0}).stop, Stop::kFault) << i;
    Restart();
    ASSERT_EQ(cpu_->Step().stop, Stop::kLimit) << i;
    ASSERT_EQ(cpu_->Step().stop, Stop::kLimit) << i;
    EXPECT_EQ(cpu_->Step().stop, Stop::kFault) << i;
    EXPECT_EQ(cpu_->pc(), kCode + 2);
  }
  registers_.gpr[kRcx] = 1;
  Restart();
  EXPECT_EQ(RunTo(~uint64_t{0}).stop, Stop::kSpecial);
  EXPECT_EQ(cpu_->count(), 4u);
}

TEST_F(CpuTest, RepCountsOnce) {
  // mov ecx,100; rep stosb; nop; syscall
  Code({0xb9, 100, 0, 0, 0, 0xf3, 0xaa, 0x90, 0x0f, 0x05});
  registers_.gpr[kRax] = 0x5a;
  Start();
  EXPECT_EQ(RunTo(~uint64_t{0}).stop, Stop::kSpecial);
  EXPECT_EQ(cpu_->count(), 3u);
  EXPECT_EQ(Reg(kRdi), kData + 100);
  Start();
  cpu_->set_count(0);
  EXPECT_EQ(RunTo(2).stop, Stop::kLimit);
  EXPECT_EQ(Reg(kRcx), 0u);
  EXPECT_EQ(cpu_->pc(), kCode + 7);
  Start();
  cpu_->set_count(0);
  EXPECT_EQ(cpu_->Step().stop, Stop::kLimit);
  EXPECT_EQ(cpu_->Step().stop, Stop::kLimit);
  EXPECT_EQ(Reg(kRcx), 0u);
  EXPECT_EQ(cpu_->pc(), kCode + 7);
}

TEST_F(CpuTest, RepInALoopCountsEachTime) {
  // L: mov ecx,5; rep stosb; dec ebx; jnz L; syscall
  Code({0xb9, 5, 0, 0, 0, 0xf3, 0xaa, 0xff, 0xcb, 0x75, 0xf5, 0x0f, 0x05});
  registers_.gpr[kRbx] = 10;
  Start();
  EXPECT_EQ(RunTo(~uint64_t{0}).stop, Stop::kSpecial);
  EXPECT_EQ(cpu_->count(), 40u);
  EXPECT_EQ(Reg(kRdi), kData + 50);
}

TEST_F(CpuTest, StopsAtBreakpointsWithoutExecutingThem) {
  CountingLoop(pages_[kCode]);
  registers_.gpr[kRcx] = 10;
  Start();
  RunTo(5);
  cpu_->SetBreakpoints({kCode + 3});
  EXPECT_EQ(RunTo(~uint64_t{0}).stop, Stop::kBreakpoint);
  EXPECT_EQ(cpu_->count(), 7u);
  EXPECT_EQ(RunTo(~uint64_t{0}).stop, Stop::kBreakpoint);
  EXPECT_EQ(cpu_->count(), 7u);
  EXPECT_EQ(cpu_->Run({.skip_first_breakpoint = true}).stop, Stop::kBreakpoint);
  EXPECT_EQ(cpu_->count(), 10u);
  cpu_->SetBreakpoints({});
  EXPECT_EQ(RunTo(~uint64_t{0}).stop, Stop::kSpecial);
}

TEST_F(CpuTest, LogsTheLastBreakpointHit) {
  CountingLoop(pages_[kCode]);
  registers_.gpr[kRcx] = 100;
  Start();
  cpu_->SetBreakpoints({kCode + 3});
  HitLog log;
  EXPECT_EQ(cpu_->Run({.limit = 200, .log_hits = &log}).stop, Stop::kLimit);
  EXPECT_EQ(log.breakpoint_hits, 67u);
  EXPECT_EQ(log.last_breakpoint_count, 199u);
}

TEST_F(CpuTest, AFaultIsReportedAndLeavesThePageAsItWas) {
  CountingLoop(pages_[kCode]);
  registers_.gpr[kRcx] = 10;
  read_only_.insert(kData);
  Start();
  RunResult result = RunTo(~uint64_t{0});
  EXPECT_EQ(result.stop, Stop::kFault);
  EXPECT_EQ(result.block_count, 0u);
  EXPECT_EQ(result.fault_address, kData);
  EXPECT_EQ(Data(0), 0u);
  Start();
  cpu_->set_count(0);
  EXPECT_EQ(cpu_->Step().stop, Stop::kFault);
  EXPECT_EQ(cpu_->pc(), kCode);
  EXPECT_EQ(cpu_->count(), 0u);
  read_only_.clear();
  EXPECT_EQ(RunTo(~uint64_t{0}).stop, Stop::kSpecial);
  EXPECT_EQ(cpu_->count(), 31u);
}

TEST_F(CpuTest, AJumpIntoNowhereFaults) {
  // xor eax,eax; jmp rax
  Code({0x31, 0xc0, 0xff, 0xe0});
  Start();
  RunResult result = RunTo(~uint64_t{0});
  EXPECT_EQ(result.stop, Stop::kFault);
  Start();
  cpu_->set_count(0);
  EXPECT_EQ(cpu_->Step().stop, Stop::kLimit);
  EXPECT_EQ(cpu_->Step().stop, Stop::kLimit);
  EXPECT_EQ(cpu_->pc(), 0u);
  EXPECT_EQ(cpu_->Step().stop, Stop::kFault);
  EXPECT_FALSE(cpu_->next().has_value());
}

TEST_F(CpuTest, ARunMayEndBeforeCodeThatCannotBeExecuted) {
  // xor eax,eax; jmp rax
  Code({0x31, 0xc0, 0xff, 0xe0});
  for (int i = 0; i < 2; ++i) {
    Start();
    cpu_->set_count(0);
    EXPECT_EQ(RunTo(2).stop, Stop::kLimit);
    EXPECT_EQ(cpu_->count(), 2u);
    EXPECT_EQ(cpu_->pc(), 0u);
  }
}

TEST_F(CpuTest, CodeThatAppearsWhereAJumpFaultedIsExecuted) {
  // mov eax,0x10000; jmp rax
  constexpr uint64_t kLate = 0x10000;
  Code({0xb8, 0, 0, 1, 0, 0xff, 0xe0});
  for (int i = 0; i < 3; ++i) {
    Start();
    EXPECT_EQ(RunTo(~uint64_t{0}).stop, Stop::kFault);
  }
  pages_[kLate].resize(kPageBytes);
  const uint8_t late[] = {0xb0, 7, 0x0f, 0x05};
  std::memcpy(pages_[kLate].data(), late, sizeof(late));
  Start();
  cpu_->set_count(0);
  EXPECT_EQ(RunTo(~uint64_t{0}).stop, Stop::kSpecial);
  EXPECT_EQ(cpu_->pc(), kLate + 2);
  EXPECT_EQ(cpu_->count(), 3u);
  EXPECT_EQ(Reg(kRax), 0x10007u);
}

TEST_F(CpuTest, DivisionByZeroFaults) {
  // nop; div ecx; nop
  Code({0x90, 0xf7, 0xf1, 0x90});
  Start();
  EXPECT_EQ(RunTo(~uint64_t{0}).stop, Stop::kFault);
  Start();
  cpu_->set_count(0);
  EXPECT_EQ(cpu_->Step().stop, Stop::kLimit);
  EXPECT_EQ(cpu_->Step().stop, Stop::kFault);
  EXPECT_EQ(cpu_->pc(), kCode + 1);
}

TEST_F(CpuTest, PushedFlagsDoNotShowTheTrapFlag) {
  // pushf; pop rax; syscall
  Code({0x9c, 0x58, 0x0f, 0x05});
  Start();
  EXPECT_EQ(cpu_->Step().stop, Stop::kLimit);
  EXPECT_EQ(cpu_->Step().stop, Stop::kLimit);
  EXPECT_EQ(Reg(kRax) & 0x100, 0u);
  EXPECT_EQ(cpu_->registers().rflags & 0x100, 0u);
}

TEST_F(CpuTest, WatchpointsSeeOnlyChanges) {
  // L: mov [rdi],rdx; inc qword [rdi+8]; dec rcx; jnz L; syscall
  Code({0x48, 0x89, 0x17, 0x48, 0xff, 0x47, 0x08, 0x48, 0xff, 0xc9, 0x75, 0xf4, 0x0f, 0x05});
  registers_.gpr[kRcx] = 10;
  Start();
  cpu_->SetWatchpoints({{.address = kData, .length = 8}});
  HitLog log;
  EXPECT_EQ(cpu_->Run({.log_hits = &log}).stop, Stop::kSpecial);
  EXPECT_EQ(log.watch_hits, 0u);
  EXPECT_EQ(Data(8), 10u);
  cpu_->SetWatchpoints({{.address = kData + 9, .length = 3}, {.address = kData + 8, .length = 1}});
  Start();
  cpu_->set_count(0);
  EXPECT_EQ(cpu_->Run({.log_hits = &log}).stop, Stop::kSpecial);
  EXPECT_EQ(log.watch_hits, 10u);
  EXPECT_EQ(log.last_watch_block_count, 36u);
  Start();
  cpu_->set_count(0);
  EXPECT_EQ(cpu_->Step().stop, Stop::kLimit);
  EXPECT_EQ(cpu_->Step().stop, Stop::kWatch);
  EXPECT_EQ(cpu_->watch_hit().index, 1u);
  EXPECT_EQ(cpu_->watch_hit().address, kData + 8);
}

TEST_F(CpuTest, SilentStoresStopARunUnlessTheyAreQuiet) {
  // L: mov [rdi],rdx; dec rcx; jnz L; syscall
  Code({0x48, 0x89, 0x17, 0x48, 0xff, 0xc9, 0x75, 0xf8, 0x0f, 0x05});
  registers_.gpr[kRcx] = 10;
  Start();
  cpu_->SetWatchpoints({{.address = kData, .length = 8, .on_store = true}});
  EXPECT_EQ(cpu_->Run({}).stop, Stop::kFault);
  Start();
  cpu_->set_count(0);
  EXPECT_EQ(cpu_->Step().stop, Stop::kWatch);
  EXPECT_TRUE(cpu_->watch_hit().silent);
  ASSERT_EQ(cpu_->stores().size(), 1u);
  EXPECT_EQ(cpu_->stores()[0].address, kData);
  const auto run = [&](CountRange quiet) {
    Start();
    cpu_->set_count(0);
    cpu_->SetQuiet({{.address = kData, .size = 8, .states = quiet}});
    return cpu_->Run({});
  };
  EXPECT_EQ(run({0, 31}).stop, Stop::kSpecial);
  RunResult result = run({0, 20});  // the seventh time goes on to the state 21
  EXPECT_EQ(result.stop, Stop::kFault);
  EXPECT_EQ(result.block_count, 18u);
  result = run({3, 40});
  EXPECT_EQ(result.stop, Stop::kFault);
  EXPECT_EQ(result.block_count, 0u);
}

TEST_F(CpuTest, BlocksWithHitsAreNotedTogetherWhereTheyLieClose) {
  std::vector<CountRange> blocks;
  HitLog log = {.watch_blocks = &blocks};
  log.AddWatchHit({100, 105});
  log.AddWatchHit({150, 160});
  log.AddWatchHit({400, 410});
  EXPECT_EQ(blocks, (std::vector<CountRange>{{100, 160}, {400, 410}}));
  log.AddWatchHit({300, 305});  // gone back
  EXPECT_EQ(blocks, (std::vector<CountRange>{{100, 160}, {300, 305}}));
  EXPECT_EQ(log.watch_hits, 4u);
}

TEST_F(CpuTest, StoresTakeUnicornsFastPath) {
  CountingLoop(pages_[kCode]);
  registers_.gpr[kRcx] = 10;
  Start();
  const uint64_t before = PagesWithFastStores();
  RunTo(~uint64_t{0});
  EXPECT_GT(PagesWithFastStores(), before);
}

TEST_F(CpuTest, SaveAndRestoreReturnRegistersAndCount) {
  CountingLoop(pages_[kCode]);
  registers_.gpr[kRcx] = 1000;
  Start();
  RunTo(100);
  RegisterFile before = cpu_->registers();
  auto state = cpu_->Save();
  RunTo(500);
  cpu_->Restore(*state);
  EXPECT_EQ(cpu_->registers(), before);
  EXPECT_EQ(cpu_->count(), 100u);
}

TEST_F(CpuTest, AllRegistersSurviveARoundTrip) {
  for (int i = 0; i < 16; ++i) {
    if (i != kRsp) registers_.gpr[i] = 0x1111111111111111u * static_cast<unsigned>(i);
    registers_.xmm[i][0] = 0x123456789abcdef0u + static_cast<unsigned>(i);
    registers_.xmm[i][1] = ~registers_.xmm[i][0];
  }
  registers_.rflags = 0xad7 & ~0x100u;
  registers_.fs_base = 0x7ffff7d8a740;
  registers_.gs_base = 0x1234;
  registers_.cs = 0x33;
  registers_.ss = 0x2b;
  registers_.mxcsr = 0x9fc0;
  registers_.fcw = 0x27f;
  registers_.fsw = 0x3800;
  registers_.ftw = 0xc0;
  registers_.st[0][0] = 0xc000000000000000;
  registers_.st[0][1] = 0x3fff;
  Start();
  RegisterFile read = cpu_->registers();
  for (size_t i = 0; i < kRegisterWords; ++i) {
    EXPECT_EQ(ToWords(read)[i], ToWords(registers_)[i]) << RegisterWordName(i);
  }
}

TEST_F(CpuTest, FloatingPointFlagsAreAccruedAndKept) {
  // divsd xmm0,xmm1 (1/0); fld1; fldz; fdivp; nop
  Code({0xf2, 0x0f, 0x5e, 0xc1, 0xd9, 0xe8, 0xd9, 0xee, 0xde, 0xf9, 0x90});
  registers_.xmm[0][0] = 0x3ff0000000000000;
  Start();
  EXPECT_EQ(cpu_->registers().mxcsr, 0x1f80u);
  RunTo(1);
  EXPECT_EQ(cpu_->registers().mxcsr, 0x1f84u);
  EXPECT_EQ(cpu_->registers().fsw & 0x3f, 0u);
  RunTo(4);
  EXPECT_EQ(cpu_->registers().fsw & 0x3f, 4u);
  RegisterFile flagged = cpu_->registers();
  Start();  // clears them
  EXPECT_EQ(cpu_->registers().mxcsr, 0x1f80u);
  EXPECT_EQ(cpu_->registers().fsw, 0u);
  cpu_->SetRegisters(flagged);
  EXPECT_EQ(cpu_->registers(), flagged);
}

}  // namespace
}  // namespace hindsight
