#include "emulator/assist/software_assist.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "emulator/assist/instruction_executor.h"

namespace hindsight {
namespace {

constexpr uint64_t kMemory = 0x1000;

// 512 bytes of memory at kMemory; all else faults.
class AssistTest : public testing::Test, public GuestMemory {
 protected:
  bool Read(uint64_t address, absl::Span<uint8_t> out) override {
    if (address < kMemory || address + out.size() > kMemory + sizeof(bytes_)) return false;
    std::memcpy(out.data(), bytes_ + (address - kMemory), out.size());
    return true;
  }
  bool Write(uint64_t address, absl::Span<const uint8_t> bytes) override {
    if (address < kMemory || address + bytes.size() > kMemory + sizeof(bytes_)) return false;
    std::memcpy(bytes_ + (address - kMemory), bytes.data(), bytes.size());
    return true;
  }
  bool MayWrite(uint64_t address, absl::Span<uint8_t> old) override { return Read(address, old); }
  bool Run(std::vector<uint8_t> code) {
    const InstructionExecutor::Prepared& prepared = executor_.Prepare(code);
    EXPECT_EQ(prepared.method, InstructionExecutor::Method::kSoftware);
    return executor_.Execute(prepared, &registers_, this) == ExecutionResult::kDone;
  }
  uint32_t Word(size_t offset) const {
    uint32_t word = 0;
    std::memcpy(&word, bytes_ + offset, sizeof(word));
    return word;
  }

  InstructionExecutor executor_;
  RegisterFile registers_;
  uint8_t bytes_[512] = {};
};

TEST_F(AssistTest, MxcsrGoesToMemoryAndBack) {
  registers_.mxcsr = 0x9fa4;
  registers_.gpr[kRdi] = kMemory;
  registers_.gpr[kRcx] = 2;
  EXPECT_TRUE(Run({0x0f, 0xae, 0x5c, 0x8f, 0x04}));  // stmxcsr [rdi+rcx*4+4]
  EXPECT_EQ(Word(12), 0x9fa4u);
  EXPECT_EQ(registers_.rip, 5u);
  registers_.mxcsr = 0;
  EXPECT_TRUE(Run({0x0f, 0xae, 0x54, 0x8f, 0x04}));  // ldmxcsr
  EXPECT_EQ(registers_.mxcsr, 0x9fa4u);
}

TEST_F(AssistTest, ReservedBitsOfMxcsrFault) {
  registers_.gpr[kRdi] = kMemory;
  registers_.mxcsr = 0x1f80;
  bytes_[2] = 1;
  EXPECT_FALSE(Run({0x0f, 0xae, 0x17}));
  EXPECT_EQ(registers_.mxcsr, 0x1f80u);
  EXPECT_EQ(registers_.rip, 0u);
}

TEST_F(AssistTest, UnmappedMemoryFaults) {
  registers_.gpr[kRdi] = kMemory + 510;
  EXPECT_FALSE(Run({0x0f, 0xae, 0x1f}));
}

TEST_F(AssistTest, SegmentAndRipRelativeAddresses) {
  registers_.mxcsr = 0x1f80;
  registers_.fs_base = kMemory + 0x20;
  EXPECT_TRUE(Run({0x64, 0x0f, 0xae, 0x1c, 0x25, 0xf0, 0xff, 0xff, 0xff}));  // fs:[-16]
  EXPECT_EQ(Word(16), 0x1f80u);
  registers_.rip = kMemory;
  EXPECT_TRUE(Run({0x0f, 0xae, 0x1d, 0x11, 0, 0, 0}));  // [rip+17]
  EXPECT_EQ(Word(24), 0x1f80u);
}

TEST_F(AssistTest, StatusWordIsStoredAndCleared) {
  registers_.fsw = 0xb8a5;
  registers_.gpr[kRax] = 0x1111111111111111;
  EXPECT_TRUE(Run({0xdf, 0xe0}));  // fnstsw ax
  EXPECT_EQ(registers_.gpr[kRax], 0x111111111111b8a5u);
  EXPECT_TRUE(Run({0xdb, 0xe2}));  // fnclex
  EXPECT_EQ(registers_.fsw, 0x3800u);
}

TEST_F(AssistTest, VectorStateGoesToMemoryAndBack) {
  registers_.gpr[kRdi] = kMemory;
  registers_.fcw = 0x37f;
  registers_.fsw = 0x3801;
  registers_.ftw = 0x80;
  registers_.fip = 0x123456789a;
  registers_.mxcsr = 0x1fa0;
  registers_.st[0][0] = 0xc000000000000000;
  registers_.st[0][1] = 0x4000;
  for (int i = 0; i < 16; ++i) registers_.xmm[i][1] = static_cast<uint64_t>(i) << 40;
  bytes_[416] = 0x77;
  const RegisterFile before = registers_;
  EXPECT_TRUE(Run({0x48, 0x0f, 0xae, 0x07}));  // fxsave64 [rdi]
  EXPECT_EQ(bytes_[416], 0x77);
  registers_ = RegisterFile{};
  registers_.gpr[kRdi] = kMemory;
  EXPECT_TRUE(Run({0x48, 0x0f, 0xae, 0x0f}));  // fxrstor64 [rdi]
  registers_.rip = before.rip;
  EXPECT_EQ(registers_, before);
  EXPECT_TRUE(Run({0x0f, 0xae, 0x07}));  // fxsave: pointers of 32 bits
  EXPECT_TRUE(Run({0x48, 0x0f, 0xae, 0x0f}));
  EXPECT_EQ(registers_.fip, 0x3456789au);
  registers_.gpr[kRdi] = kMemory + 8;
  EXPECT_FALSE(Run({0x48, 0x0f, 0xae, 0x07}));  // misaligned
}

TEST_F(AssistTest, TheX87ControlWordComesWithTheVectorState) {
  registers_.gpr[kRdi] = kMemory;
  registers_.mxcsr = 0x1f80;
  registers_.fcw = 0xc7a;  // towards zero, single precision, two exceptions not masked
  registers_.fcw |= 0x40;  // always set
  EXPECT_TRUE(Run({0x48, 0x0f, 0xae, 0x07}));  // fxsave64 [rdi]
  for (uint64_t other : {0x37f, 0x40}) {
    registers_.fcw = other;
    EXPECT_TRUE(Run({0x48, 0x0f, 0xae, 0x0f}));  // fxrstor64 [rdi]
    EXPECT_EQ(registers_.fcw, 0xc7au);
  }
  bytes_[0] = bytes_[1] = 0xff;  // with reserved bits,
  bytes_[2] = 0x04;              // and an exception flag, which is masked
  EXPECT_TRUE(Run({0x0f, 0xae, 0x0f}));
  EXPECT_EQ(registers_.fcw, 0x1f7fu);
  EXPECT_EQ(registers_.fsw, 0x04u);
  bytes_[0] = 0x7b;  // now it is not: the summary and busy bits say so
  EXPECT_TRUE(Run({0x0f, 0xae, 0x0f}));
  EXPECT_EQ(registers_.fsw, 0x8084u);
}

TEST_F(AssistTest, PopulationCountInAllWidths) {
  registers_.gpr[kRbx] = 0xff00ff00ff00ff01;
  registers_.gpr[kRax] = ~uint64_t{0};
  registers_.rflags = 0x8d7;
  EXPECT_TRUE(Run({0xf3, 0x48, 0x0f, 0xb8, 0xc3}));  // popcnt rax,rbx
  EXPECT_EQ(registers_.gpr[kRax], 33u);
  EXPECT_EQ(registers_.rflags, 2u);
  registers_.gpr[kRax] = ~uint64_t{0};
  EXPECT_TRUE(Run({0xf3, 0x0f, 0xb8, 0xc3}));  // eax,ebx
  EXPECT_EQ(registers_.gpr[kRax], 17u);
  registers_.gpr[kRax] = ~uint64_t{0};
  EXPECT_TRUE(Run({0x66, 0xf3, 0x0f, 0xb8, 0xc3}));  // ax,bx
  EXPECT_EQ(registers_.gpr[kRax], 0xffffffffffff0009u);
  registers_.gpr[kRsi] = kMemory;
  EXPECT_TRUE(Run({0xf3, 0x0f, 0xb8, 0x06}));  // eax,[rsi]
  EXPECT_EQ(registers_.gpr[kRax], 0u);
  EXPECT_EQ(registers_.rflags, 0x42u);
}

TEST_F(AssistTest, TheX87EnvironmentGoesToMemoryAndBack) {
  registers_.fcw = 0x27f;
  registers_.fsw = 0x3800;  // top of stack is 7
  registers_.ftw = 0x81;
  registers_.st[0][0] = uint64_t{1} << 63;
  registers_.st[0][1] = 0x3fff;  // physical 7: 1.0; physical 0: zero
  registers_.fip = 0x1122334455667788;
  registers_.gpr[kRdi] = kMemory;
  const RegisterFile before = registers_;
  EXPECT_TRUE(Run({0xd9, 0x37}));  // fnstenv
  EXPECT_EQ(Word(0), 0xffff027fu);
  EXPECT_EQ(Word(4), 0xffff3800u);
  EXPECT_EQ(Word(8), 0xffff3ffdu);  // valid, six empty ones, zero
  EXPECT_EQ(Word(12), 0x55667788u);
  EXPECT_EQ(registers_.fcw, 0x27fu);
  EXPECT_TRUE(Run({0xdb, 0xe3}));  // fninit
  EXPECT_EQ(registers_.fcw, 0x37fu);
  EXPECT_EQ(registers_.ftw, 0u);
  EXPECT_EQ(registers_.st[7][1], 0x3fffu);  // it did not move, the top did
  EXPECT_TRUE(Run({0xd9, 0x27}));           // fldenv
  EXPECT_EQ(registers_.fsw, before.fsw);
  EXPECT_EQ(registers_.ftw, before.ftw);
  EXPECT_EQ(registers_.st[0][1], 0x3fffu);
}

TEST_F(AssistTest, TheX87StateGoesToMemoryAndBack) {
  registers_.fcw = 0x37f;
  registers_.ftw = 0xff;
  for (uint64_t i = 0; i < 8; ++i) registers_.st[i][0] = i << 60 | 1, registers_.st[i][1] = i;
  registers_.gpr[kRdi] = kMemory;
  RegisterFile before = registers_;
  EXPECT_TRUE(Run({0xdd, 0x37}));  // fnsave
  EXPECT_EQ(registers_.ftw, 0u);
  EXPECT_TRUE(Run({0xdd, 0x27}));  // frstor
  before.rip = registers_.rip;
  EXPECT_EQ(registers_, before);
  registers_.gpr[kRdi] = kMemory + sizeof(bytes_) - 107;
  before = registers_;
  EXPECT_FALSE(Run({0xdd, 0x37}));
  EXPECT_EQ(registers_, before);
}

TEST_F(AssistTest, SegmentBases) {
  if (!HostFeatures::OfThisHost().Has(HostFeature::kFsgsbase)) GTEST_SKIP();
  registers_.fs_base = 0x1234567890;
  EXPECT_TRUE(Run({0xf3, 0x48, 0x0f, 0xae, 0xc0}));  // rdfsbase rax
  EXPECT_EQ(registers_.gpr[kRax], 0x1234567890u);
  registers_.gpr[kRax] = 0xffff'8000'0000'1000;
  EXPECT_TRUE(Run({0xf3, 0x48, 0x0f, 0xae, 0xd8}));  // wrgsbase rax
  EXPECT_EQ(registers_.gs_base, 0xffff'8000'0000'1000u);
  EXPECT_TRUE(Run({0xf3, 0x0f, 0xae, 0xd8}));  // wrgsbase eax
  EXPECT_EQ(registers_.gs_base, 0x1000u);
  registers_.gpr[kRax] = uint64_t{1} << 60;
  EXPECT_FALSE(Run({0xf3, 0x48, 0x0f, 0xae, 0xd0}));  // wrfsbase rax: not canonical
  EXPECT_EQ(registers_.fs_base, 0x1234567890u);
}

TEST_F(AssistTest, ClearingVectorsLeavesThoseThatOnlyEvexReaches) {
  if (!HostFeatures::OfThisHost().Has(HostFeature::kAvx)) GTEST_SKIP();
  registers_.xmm[15][1] = registers_.ymm_high[0][0] = registers_.zmm_high[3][3] = 1;
  registers_.zmm16[0][0] = registers_.k[1] = 1;
  RegisterFile expected = registers_;
  expected.ymm_high[0][0] = expected.zmm_high[3][3] = 0;
  expected.rip = 3;
  EXPECT_TRUE(Run({0xc5, 0xf8, 0x77}));  // vzeroupper
  EXPECT_EQ(registers_, expected);
  expected.xmm[15][1] = 0;
  expected.rip = 6;
  EXPECT_TRUE(Run({0xc5, 0xfc, 0x77}));  // vzeroall
  EXPECT_EQ(registers_, expected);
}

}  // namespace
}  // namespace hindsight
