// Compared with what this machine's processor stores and loads.

#include "server/target/scratch_xstate.h"

#include <sys/mman.h>

#include <cstring>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "isa/host_registers.h"

namespace hindsight {
namespace {

constexpr uint64_t kArea = 0x500000;
constexpr size_t kAreaBytes = 4096;
constexpr uint64_t kAll = 0xe7;  // the components that the register file has

class ScratchXstateTest : public ::testing::Test {
 protected:
  ScratchXstateTest() {
    const auto none = [](uint64_t, absl::Span<uint8_t>) -> size_t { return 0; };
    machine_ = *ScratchMachine::Create({{.start = kArea,
                                         .end = kArea + 2 * kAreaBytes,
                                         .protection = PROT_READ | PROT_WRITE,
                                         .name = "[heap]"}},
                                       none);
    registers_.mxcsr = 0x1f80;
    registers_.fcw = 0x37f;
    registers_.gpr[kRdi] = kArea;
    registers_.gpr[kRax] = kAll;
    registers_.gpr[kRdx] = 0;
  }
  void SetUp() override {
    if (XstateComponents() == 0) GTEST_SKIP() << "no XSAVE here";
  }
  // Of the instruction 0f c7 or 0f ae with rdi as its address.
  bool Execute(std::vector<uint8_t> code) {
    return ExecuteXstate(code, machine_.get(), &registers_);
  }
  std::vector<uint8_t> Area() {
    std::vector<uint8_t> area(kAreaBytes);
    EXPECT_EQ(machine_->ReadMemory(kArea, absl::MakeSpan(area)), kAreaBytes);
    return area;
  }
  void FillVectors() {
    for (int i = 0; i < 16; ++i) {
      registers_.xmm[i][0] = 0x1111111111111111 * static_cast<uint64_t>(i + 1);
      if ((XstateComponents() & 4) != 0) registers_.ymm_high[i][1] = static_cast<uint64_t>(i + 7);
      if ((XstateComponents() & 0x40) != 0) registers_.zmm_high[i][3] = static_cast<uint64_t>(i);
      if ((XstateComponents() & 0x80) != 0) registers_.zmm16[i][2] = static_cast<uint64_t>(i * 3);
    }
    if ((XstateComponents() & 0x20) != 0) registers_.k[3] = 0x123456789abcdef;
    registers_.mxcsr = 0x1fa0;
    registers_.st[0][0] = uint64_t{1} << 63;
    registers_.st[0][1] = 0x3fff;
    registers_.ftw = 0x80;
    registers_.fsw = 0x3800;
  }

  std::unique_ptr<ScratchMachine> machine_;
  RegisterFile registers_;
};

const std::vector<uint8_t> kXsave64 = {0x48, 0x0f, 0xae, 0x27};
const std::vector<uint8_t> kXrstor64 = {0x48, 0x0f, 0xae, 0x2f};
const std::vector<uint8_t> kXsavec64 = {0x48, 0x0f, 0xc7, 0x27};

// Loads `image` into this processor's registers and stores these with xsavec, or xsave.
std::vector<uint8_t> ByTheProcessor(const std::vector<uint8_t>& image, bool compact) {
  alignas(64) static uint8_t from[kAreaBytes], to[kAreaBytes], before[kAreaBytes];
  std::memcpy(from, image.data(), kAreaBytes);
  std::memset(to, 0, kAreaBytes);
  std::memset(before, 0, kAreaBytes);
  const auto mask = static_cast<uint32_t>(XstateComponents());
  if (compact) {
    asm volatile("xsave64 (%2); xrstor64 (%0); xsavec64 (%1); xrstor64 (%2)" ::"r"(from), "r"(to),
                 "r"(before), "a"(mask), "d"(0)
                 : "memory");
  } else {
    asm volatile("xsave64 (%2); xrstor64 (%0); xsave64 (%1); xrstor64 (%2)" ::"r"(from), "r"(to),
                 "r"(before), "a"(mask), "d"(0)
                 : "memory");
  }
  return std::vector<uint8_t>(to, to + kAreaBytes);
}

// What the hardware puts into both areas and programs do not depend on: the mask of MXCSR.
std::vector<uint8_t> Comparable(std::vector<uint8_t> area) {
  std::memset(&area[28], 0, 4);
  return area;
}

TEST_F(ScratchXstateTest, StoresWhatTheProcessorStores) {
  FillVectors();
  ASSERT_TRUE(Execute(kXsave64));
  const std::vector<uint8_t> standard = Area();
  EXPECT_EQ(Comparable(standard), Comparable(ByTheProcessor(standard, /*compact=*/false)));
  ASSERT_TRUE(machine_->WriteMemory(kArea, std::vector<uint8_t>(kAreaBytes, 0)).ok());
  ASSERT_TRUE(Execute(kXsavec64));
  EXPECT_EQ(Comparable(Area()), Comparable(ByTheProcessor(standard, /*compact=*/true)));
}

TEST_F(ScratchXstateTest, WhatWasStoredIsLoaded) {
  for (const auto& save : {kXsave64, kXsavec64}) {
    FillVectors();
    const RegisterFile saved = registers_;
    ASSERT_TRUE(Execute(save));
    std::memset(registers_.xmm, 0x55, sizeof(registers_.xmm));
    std::memset(registers_.ymm_high, 0x66, sizeof(registers_.ymm_high));
    registers_.fsw = registers_.ftw = registers_.mxcsr = 0;
    registers_.k[3] = 1;
    ASSERT_TRUE(Execute(kXrstor64));
    std::memcpy(registers_.k, saved.k, sizeof(saved.k) * ((XstateComponents() & 0x20) == 0));
    std::memcpy(registers_.ymm_high, saved.ymm_high,
                sizeof(saved.ymm_high) * ((XstateComponents() & 4) == 0));
    EXPECT_TRUE(registers_ == saved);
  }
}

// As the dynamic linker does: without the x87 and what is not in use.
TEST_F(ScratchXstateTest, OnlyWhatWasAskedForChanges) {
  FillVectors();
  registers_.gpr[kRax] = kAll & ~uint64_t{1};
  ASSERT_TRUE(Execute(kXsavec64));
  const RegisterFile saved = registers_;
  registers_.fsw = 0x1000;
  std::memset(registers_.xmm, 0, sizeof(registers_.xmm));
  ASSERT_TRUE(Execute(kXrstor64));
  EXPECT_EQ(registers_.fsw, 0x1000u);
  EXPECT_EQ(std::memcmp(registers_.xmm, saved.xmm, sizeof(saved.xmm)), 0);
}

TEST_F(ScratchXstateTest, WhatIsInItsInitialStateNeedsNoRoom) {
  ASSERT_TRUE(machine_->WriteMemory(kArea, std::vector<uint8_t>(kAreaBytes, 0xaa)).ok());
  ASSERT_TRUE(machine_->WriteMemory(kArea + 512, std::vector<uint8_t>(64, 0)).ok());
  registers_.xmm[1][0] = 5;
  ASSERT_TRUE(Execute(kXsavec64));
  for (size_t i = 576; i < kAreaBytes; ++i) ASSERT_EQ(Area()[i], 0xaa) << i;
}

TEST_F(ScratchXstateTest, FaultsAreNotExecuted) {
  registers_.gpr[kRdi] = kArea + 8;  // not aligned
  EXPECT_FALSE(Execute(kXsavec64));
  registers_.gpr[kRdi] = 0x900000;
  EXPECT_FALSE(Execute(kXsavec64));
  EXPECT_FALSE(Execute({0x48, 0x89, 0x07}));  // mov [rdi], rax
}

}  // namespace
}  // namespace hindsight
