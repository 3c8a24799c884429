#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "base/test_seed.h"
#include "emulator/cpu/cpu_fixture.h"
#include "isa/alignment.h"

namespace hindsight {
namespace {

using Bytes = std::vector<uint8_t>;

// What AlignmentOf() predicts for random code is what its execution shows.
class RandomCodeTest : public CpuTest {
 protected:
  uint8_t Byte() { return static_cast<uint8_t>(random_()); }
  uint64_t Below(uint64_t limit) { return random_() % limit; }
  // Not rsp as a destination, which must stay on the stack.
  int Destination() {
    const int gpr = static_cast<int>(Below(15));
    return gpr < kRsp ? gpr : gpr + 1;
  }
  static uint8_t Rex(bool wide, int reg, int index, int base) {
    return static_cast<uint8_t>(0x40 | wide << 3 | (reg >> 3) << 2 | (index >> 3) << 1 | base >> 3);
  }
  // `opcode` with two registers or, /digit, one and an immediate byte.
  void TwoRegisters(uint8_t opcode, int rm, int reg) {
    if (Below(8) == 0) code_.push_back(0x66);
    code_.push_back(Rex(Below(2) != 0, reg, 0, rm));
    code_.insert(code_.end(), {opcode, static_cast<uint8_t>(0xc0 | (reg & 7) << 3 | (rm & 7))});
  }
  void Immediate(uint8_t opcode, int digit, uint8_t value) {
    TwoRegisters(opcode, Destination(), digit);
    code_.push_back(value);
  }
  // `opcode` with [base + index * scale + 8 bits].
  void Memory(bool wide, Bytes opcode, int reg) {
    const int base = static_cast<int>(Below(16)), index = Destination();
    code_.push_back(Rex(wide, reg, index, base));
    code_.insert(code_.end(), opcode.begin(), opcode.end());
    code_.push_back(static_cast<uint8_t>(0x44 | (reg & 7) << 3));
    code_.push_back(static_cast<uint8_t>(Below(4) << 6 | (index & 7) << 3 | (base & 7)));
    code_.push_back(Byte());
  }
  void Instruction() {
    switch (Below(20)) {
      case 0:
        return TwoRegisters(0x89, Destination(), static_cast<int>(Below(16)));  // mov
      case 1:
        return TwoRegisters(0x01, Destination(), static_cast<int>(Below(16)));  // add
      case 2:
        return TwoRegisters(0x29, Destination(), static_cast<int>(Below(16)));  // sub
      case 3:
        return TwoRegisters(0x31, Destination(), Destination());  // xor
      case 4:
        return TwoRegisters(0x87, Destination(), Destination());  // xchg
      case 5:
        return TwoRegisters(0x88, Destination(), Destination());  // mov, bytes
      case 6:
        return TwoRegisters(0x63, static_cast<int>(Below(16)), Destination());  // movsxd
      case 7:
        return Immediate(0x83, 0, Byte());  // add
      case 8:
        return Immediate(0x83, 5, Byte());  // sub
      case 9:
        return Immediate(0x83, 4, static_cast<uint8_t>(-(1 << Below(7))));  // and
      case 10:
        return Immediate(0x83, 1, Byte());  // or
      case 11:
        return Immediate(0xc1, 4, static_cast<uint8_t>(Below(70)));  // shl
      case 12:
        return Immediate(0xc1, 7, static_cast<uint8_t>(Below(70)));  // sar
      case 13:
        return TwoRegisters(0xff, Destination(), static_cast<int>(Below(2)));  // inc, dec
      case 14:
        return TwoRegisters(0xf7, Destination(), 3);  // neg
      case 15: {                                      // imul
        TwoRegisters(0x6b, static_cast<int>(Below(16)), Destination());
        return code_.push_back(Byte());
      }
      case 16:
        return code_.push_back(static_cast<uint8_t>(0x50 + Below(8)));  // push
      case 17:
        return code_.push_back(static_cast<uint8_t>(0x58 + (Destination() & 3)));  // pop
      default:
        return Memory(Below(2) != 0, {0x8d}, Destination());  // lea
    }
  }
  RegisterFile AnyRegisters() {
    RegisterFile any = registers_;
    for (int i = 0; i < 16; ++i) {
      if (i != kRsp) any.gpr[i] = random_();
    }
    any.gpr[kRsp] += Below(16);
    return any;
  }
  // Executes the code from these registers; the address of the movaps at its end, modulo 16.
  uint64_t Execute(const RegisterFile& from) {
    cpu_->SetRegisters(from);
    while (cpu_->pc() < kCode + code_.size() - probe_bytes_) {
      const RunResult step = cpu_->Step();
      EXPECT_EQ(step.stop, Stop::kLimit) << std::hex << cpu_->pc() - kCode;
      if (step.stop != Stop::kLimit) return 0;
    }
    const Bytes sib(code_.end() - 2, code_.end());
    const auto& gpr = cpu_->registers().gpr;
    const uint8_t rex = code_[code_.size() - probe_bytes_];
    const uint64_t base = gpr[(sib[0] & 7) | (rex & 1) << 3];
    const uint64_t index = gpr[(sib[0] >> 3 & 7) | (rex & 2) << 2];
    return (base + (index << (sib[0] >> 6)) + sib[1]) % AlignmentCheck::kModulus;
  }
  static uint64_t Evaluate(const AlignmentCheck& check, const RegisterFile& registers) {
    uint64_t sum = check.constant;
    for (int i = 0; i < check.term_count; ++i) {
      sum += registers.gpr[check.terms[i].gpr] * check.terms[i].factor;
    }
    return sum % AlignmentCheck::kModulus;
  }

  std::mt19937_64 random_{TestSeed()};
  Bytes code_;
  static constexpr size_t probe_bytes_ = 6;
};

TEST_F(RandomCodeTest, PredictionsHold) {
  int known = 0, kept = 0;
  for (int round = 0; round < 2000; ++round) {
    code_.clear();
    for (uint64_t i = Below(7); i > 0; --i) Instruction();
    Memory(false, {0x0f, 0x28}, 0);  // movaps xmm0,[...]
    ASSERT_LE(code_.size(), 128u);
    // New code each time.
    registers_.rip = kCode;
    std::memcpy(cpu_->HostPage(kCode), code_.data(), code_.size());
    std::memcpy(pages_[kCode].data(), code_.data(), code_.size());
    cpu_->ContentsChanged(kCode);
    const BlockAlignment block = AlignmentOf(kCode, code_);
    const RegisterFile from = AnyRegisters();
    const uint64_t low = Execute(from);
    if (block.unknown) continue;
    ++known;
    ASSERT_LE(block.checks.size(), 1u);
    const uint64_t predicted = block.checks.empty() ? 0 : Evaluate(block.checks[0], from);
    ASSERT_EQ(predicted, low) << "round " << round;
    if (!block.kept || block.checks.empty()) continue;
    ++kept;
    ASSERT_EQ(Evaluate(block.checks[0], cpu_->registers()), low) << "round " << round;
  }
  EXPECT_GT(known, 500);
  EXPECT_GT(kept, 50);
}

}  // namespace
}  // namespace hindsight
