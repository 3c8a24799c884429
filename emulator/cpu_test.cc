#include "emulator/cpu.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace hindsight {
namespace {

constexpr uint64_t kCode = 0x555555554000;
constexpr uint64_t kData = 0x7ffff7000000;
constexpr uint64_t kStack = 0x7ffffffde000;

// A process made of three pages. Pages are handed out when asked for; others do not exist.
class CpuTest : public testing::Test, public Pager {
 protected:
  void SetUp() override {
    auto cpu = Cpu::Create(this);
    ASSERT_TRUE(cpu.ok()) << cpu.status();
    cpu_ = *std::move(cpu);
    pages_[kCode].resize(kPageBytes);
    pages_[kData].resize(kPageBytes);
    pages_[kStack].resize(kPageBytes);
    registers_.rip = kCode;
    registers_.rflags = 0x202;
    registers_.gpr[kRsp] = kStack + 0x800;
    registers_.gpr[kRdi] = kData;
    registers_.mxcsr = 0x1f80;
    registers_.fcw = 0x37f;
  }

  void Code(std::initializer_list<int> bytes, uint64_t offset = 0) {
    for (int byte : bytes) pages_[kCode][offset++] = static_cast<uint8_t>(byte);
  }
  void Start() { cpu_->SetRegisters(registers_); }
  RunResult RunTo(uint64_t limit) { return cpu_->Run({.limit = limit}); }
  uint64_t Reg(Gpr gpr) { return cpu_->registers().gpr[gpr]; }
  uint64_t Data(uint64_t offset) {
    uint64_t value = 0;
    cpu_->ReadHeld(kData + offset, absl::MakeSpan(reinterpret_cast<uint8_t*>(&value), 8));
    return value;
  }

  bool OnMissing(uint64_t page, Access access) override {
    ++missing_;
    auto found = pages_.find(page);
    if (found == pages_.end()) return false;
    std::memcpy(cpu_->HostPage(page), found->second.data(), kPageBytes);
    cpu_->ContentsChanged(page);
    cpu_->SetRights(page, PageRights::kRead);
    return true;
  }
  bool OnFirstWrite(uint64_t page) override {
    ++first_writes_;
    return !read_only_.contains(page);
  }

  std::unique_ptr<Cpu> cpu_;
  RegisterFile registers_;
  absl::flat_hash_map<uint64_t, std::vector<uint8_t>> pages_;
  absl::flat_hash_set<uint64_t> read_only_;
  int missing_ = 0;
  int first_writes_ = 0;
};

// L: inc qword [rdi]; dec rcx; jnz L; nop; syscall
void CountingLoop(std::vector<uint8_t>& page) {
  const uint8_t code[] = {0x48, 0xff, 0x07, 0x48, 0xff, 0xc9, 0x75, 0xf8, 0x90, 0x0f, 0x05};
  std::memcpy(page.data(), code, sizeof(code));
}

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

TEST_F(CpuTest, SelfModifyingCodeRunsExactly) {
  // L: mov eax, 0; inc byte [rip - 10] (the immediate); dec ecx; jnz L; syscall
  Code({0xb8, 0, 0, 0, 0, 0xfe, 0x05, 0xf6, 0xff, 0xff, 0xff, 0xff, 0xc9, 0x75, 0xf1, 0x0f, 0x05});
  registers_.gpr[kRcx] = 20;
  Start();
  RunResult result = RunTo(~uint64_t{0});
  if (result.stop == Stop::kFault) {  // inexact: begin again, as a caller would
    std::memcpy(cpu_->HostPage(kCode), pages_[kCode].data(), kPageBytes);
    cpu_->ContentsChanged(kCode);
    Start();
    cpu_->set_count(0);
    result = RunTo(~uint64_t{0});
  }
  EXPECT_EQ(result.stop, Stop::kSpecial);
  EXPECT_EQ(cpu_->count(), 80u);
  EXPECT_EQ(Reg(kRax), 19u);
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
  EXPECT_EQ(cpu_->hit_watchpoint(), 1u);
  EXPECT_EQ(cpu_->hit_address(), kData + 8);
}

// L: lock inc qword [rdi]; mov rax,[rdi]; mov [rdi+8],rax; pause; dec rcx; jnz L; syscall
void LockedLoop(std::vector<uint8_t>& page) {
  const uint8_t code[] = {0xf0, 0x48, 0xff, 0x07, 0x48, 0x8b, 0x07, 0x48, 0x89, 0x47,
                          0x08, 0xf3, 0x90, 0x48, 0xff, 0xc9, 0x75, 0xee, 0x0f, 0x05};
  std::memcpy(page.data(), code, sizeof(code));
}

TEST_F(CpuTest, LogsTheCountsOfOrderableInstructions) {
  LockedLoop(pages_[kCode]);
  registers_.gpr[kRcx] = 3;
  using Counts = std::vector<uint64_t>;
  auto log = [&](MemoryModel model, bool step) {
    Counts counts;
    Start();
    cpu_->set_count(100);
    cpu_->LogOrderable(model, &counts);
    if (step) {
      while (cpu_->Step().stop == Stop::kLimit) continue;
    } else {
      EXPECT_EQ(RunTo(~uint64_t{0}).stop, Stop::kSpecial);
    }
    EXPECT_EQ(cpu_->count(), 118u);
    cpu_->LogOrderable(model, nullptr);
    return counts;
  };
  for (bool step : {false, true}) {
    EXPECT_EQ(log(MemoryModel::kKernel, step), Counts{});
    EXPECT_EQ(log(MemoryModel::kFence, step), (Counts{100, 106, 112}));
    EXPECT_EQ(log(MemoryModel::kAcqRel, step), (Counts{100, 102, 106, 108, 112, 114}));
    EXPECT_EQ(log(MemoryModel::kLoad, step), (Counts{100, 101, 102, 106, 107, 108, 112, 113, 114}));
  }
}

TEST_F(CpuTest, ARepeatedInstructionIsLoggedOnce) {
  // L: mov ecx,5; rep stosb; dec ebx; jnz L; syscall
  Code({0xb9, 5, 0, 0, 0, 0xf3, 0xaa, 0xff, 0xcb, 0x75, 0xf5, 0x0f, 0x05});
  registers_.gpr[kRbx] = 3;
  std::vector<uint64_t> counts;
  cpu_->LogOrderable(MemoryModel::kAcqRel, &counts);
  Start();
  EXPECT_EQ(RunTo(~uint64_t{0}).stop, Stop::kSpecial);
  EXPECT_EQ(counts, (std::vector<uint64_t>{1, 5, 9}));
}

TEST_F(CpuTest, NothingOfTheInexactBlockStaysLogged) {
  // L: push rax; dec ecx; jnz L; push rax; mov [rsi],rax; push rax; jmp M; M: syscall
  Code({0x50, 0xff, 0xc9, 0x75, 0xfb, 0x50, 0x48, 0x89, 0x06, 0x50, 0xeb, 0x00, 0x0f, 0x05});
  registers_.gpr[kRcx] = 3;
  registers_.gpr[kRsi] = 0x1000;
  std::vector<uint64_t> counts;
  cpu_->LogOrderable(MemoryModel::kAcqRel, &counts);
  Start();
  RunResult result = RunTo(~uint64_t{0});
  ASSERT_EQ(result.stop, Stop::kFault);
  EXPECT_EQ(result.block_count, 9u);
  EXPECT_EQ(counts, (std::vector<uint64_t>{0, 3, 6}));
  // Go back, as cpu.h asks, and step to the instruction that faults.
  counts.clear();
  Start();
  cpu_->set_count(0);
  EXPECT_EQ(RunTo(result.block_count).stop, Stop::kLimit);
  EXPECT_EQ(cpu_->Step().stop, Stop::kLimit);
  EXPECT_EQ(cpu_->Step().stop, Stop::kFault);
  EXPECT_EQ(counts, (std::vector<uint64_t>{0, 3, 6, 9}));
}

TEST_F(CpuTest, RecyclingLeavesNothingButTranslations) {
  CountingLoop(pages_[kCode]);
  registers_.gpr[kRcx] = 1000;
  std::vector<uint64_t> counts;
  cpu_->LogOrderable(MemoryModel::kLoad, &counts);
  cpu_->SetBreakpoints({kCode + 8});
  cpu_->SetWatchpoints({{.address = kData, .length = 8}});
  Start();
  EXPECT_EQ(RunTo(~uint64_t{0}).stop, Stop::kFault);  // watch
  cpu_->Recycle(this);
  for (uint64_t page : {kCode, kData, kStack}) EXPECT_EQ(cpu_->rights(page), PageRights::kNone);
  EXPECT_EQ(cpu_->count(), 0u);
  counts.clear();
  missing_ = first_writes_ = 0;
  registers_.gpr[kRcx] = 10;
  Start();
  EXPECT_EQ(RunTo(~uint64_t{0}).stop, Stop::kSpecial);
  EXPECT_EQ(cpu_->count(), 31u);
  EXPECT_EQ(Data(0), 10u);
  EXPECT_EQ(missing_, 2);
  EXPECT_EQ(first_writes_, 1);
  EXPECT_TRUE(counts.empty());
}

// Hands out one page of code, and says that it differs from what was there only if it does.
class OtherProgram final : public Pager {
 public:
  OtherProgram(Cpu* cpu, std::vector<uint8_t> code) : cpu_(cpu), code_(std::move(code)) {}
  bool OnMissing(uint64_t page, Access access) override {
    if (page != kCode) return false;
    uint8_t* host = cpu_->HostPage(page);
    if (std::memcmp(host, code_.data(), code_.size()) != 0) {
      std::memcpy(host, code_.data(), code_.size());
      cpu_->ContentsChanged(page);
    }
    cpu_->SetRights(page, PageRights::kRead);
    return true;
  }
  bool OnFirstWrite(uint64_t page) override { return false; }

 private:
  Cpu* cpu_;
  std::vector<uint8_t> code_;
};

TEST_F(CpuTest, ARecycledCpuRunsTheCodeOfItsPager) {
  Code({0xb8, 1, 0, 0, 0, 0x0f, 0x05});  // mov eax,1; syscall
  Start();
  RunTo(~uint64_t{0});
  EXPECT_EQ(Reg(kRax), 1u);
  OtherProgram same(cpu_.get(), pages_[kCode]);
  OtherProgram other(cpu_.get(), {0xb8, 2, 0, 0, 0, 0x90, 0x0f, 0x05});
  for (Pager* pager :
       {static_cast<Pager*>(&same), static_cast<Pager*>(&other), static_cast<Pager*>(&same)}) {
    cpu_->Recycle(pager);
    Start();
    EXPECT_EQ(RunTo(~uint64_t{0}).stop, Stop::kSpecial);
    EXPECT_EQ(cpu_->count(), pager == &other ? 2u : 1u);
    EXPECT_EQ(Reg(kRax), pager == &other ? 2u : 1u);
  }
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
