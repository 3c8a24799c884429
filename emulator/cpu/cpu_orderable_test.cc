// Orderable instructions, and Cpus that change hands.

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "emulator/cpu/cpu.h"
#include "emulator/cpu/cpu_fixture.h"

namespace hindsight {
namespace {

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

}  // namespace
}  // namespace hindsight
