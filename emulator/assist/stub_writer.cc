#include "emulator/assist/stub_writer.h"

#include <initializer_list>

#include "base/check.h"
#include "isa/host_features.h"

namespace hindsight {
namespace {

constexpr uint32_t kArithmeticFlags = 0x8d5;
// Where the register file's address is kept: a register the instruction does not use. Not r12,
// whose encoding as a base differs.
constexpr uint8_t kStateRegisters[] = {kR11, kR10, kR9, kR8, kR15, kR14, kR13};
constexpr uint8_t kCalleeSaved[] = {kRbx, kRbp, kR12, kR13, kR14, kR15};
// The frame: the host's MXCSR and x87 control word, and the address of the image.
constexpr uint8_t kFrameBytes = 24;
constexpr uint8_t kMxcsrAt = 0, kControlAt = 4, kImageAt = 8;

constexpr size_t kMxcsrField = offsetof(RegisterFile, mxcsr);
constexpr size_t kFlagsField = offsetof(RegisterFile, rflags);

constexpr size_t GprField(int i) { return offsetof(RegisterFile, gpr) + i * sizeof(uint64_t); }
constexpr size_t OpmaskField(int i) { return offsetof(RegisterFile, k) + i * sizeof(uint64_t); }
constexpr size_t XmmField(int i) { return offsetof(RegisterFile, xmm) + i * 16; }
constexpr size_t YmmField(int i) { return offsetof(RegisterFile, ymm_high) + i * 16; }
constexpr size_t ZmmField(int i) { return offsetof(RegisterFile, zmm_high) + i * 32; }
constexpr size_t Zmm16Field(int i) { return offsetof(RegisterFile, zmm16) + (i - 16) * 64; }

class StubWriter {
 public:
  explicit StubWriter(const HostPlan& plan) : plan_(plan) { ChooseStateRegister(); }

  Stub Write() {
    Enter();
    LoadFloatingPoint();
    LoadVectors();
    LoadFlagsAndGprs();
    Bytes(plan_.code);
    StoreGprsAndFlags();
    StoreVectors();
    StoreFloatingPoint();
    Bytes({0x31, 0xc0});  // xor eax, eax
    Leave();
    stub_.bail = stub_.code.size();
    RestoreHost();
    Bytes({0xb8, 1, 0, 0, 0});  // mov eax, 1
    Leave();
    return std::move(stub_);
  }

 private:
  void Byte(unsigned byte) { stub_.code.push_back(static_cast<uint8_t>(byte)); }
  template <typename Range>
  void Bytes(const Range& bytes) {
    for (auto byte : bytes) Byte(byte);
  }
  void Bytes(std::initializer_list<unsigned> bytes) {
    for (unsigned byte : bytes) Byte(byte);
  }
  void Word32(uint32_t word) {
    for (int i = 0; i < 4; ++i) Byte(word >> (8 * i) & 0xff);
  }

  void ChooseStateRegister() {
    for (uint8_t candidate : kStateRegisters) {
      if ((plan_.gprs >> candidate & 1) != 0) continue;
      state_ = candidate;
      break;
    }
    CHECK(state_ != 0);  // no instruction has seven register operands
    used_ = plan_.gprs | 1u << plan_.memory_register | 1u << state_;
    if (plan_.rsp_stand_in != HostPlan::kNoStandIn) used_ |= 1u << plan_.rsp_stand_in;
    vex_ = plan_.instruction.encoding == ZYDIS_INSTRUCTION_ENCODING_VEX ||
           plan_.instruction.encoding == ZYDIS_INSTRUCTION_ENCODING_EVEX;
    wide_opmasks_ = HostFeatures::OfThisHost().Has(HostFeature::kAvx512Bw);
  }

  // The ModRM byte and displacement of [state + field].
  void Field(int reg, size_t field) {
    Byte(0x80 | (reg & 7) << 3 | (state_ & 7));
    Word32(static_cast<uint32_t>(field));
  }

  void Enter() {
    for (uint8_t saved : kCalleeSaved) {
      if ((used_ >> saved & 1) == 0) continue;
      if (saved >= 8) Byte(0x41);
      Byte(0x50 | (saved & 7));
    }
    Bytes({0x48, 0x83, 0xec, kFrameBytes});      // sub rsp, frame
    Bytes({0x49, 0x89, 0xf8u | (state_ & 7u)});  // mov state, rdi
    if (plan_.uses_x87) {
      Bytes({0x48, 0x89, 0x54, 0x24, kImageAt});  // mov [rsp + image], rdx
      Bytes({0xd9, 0x7c, 0x24, kControlAt});      // fnstcw
    }
    if (plan_.uses_x87 || plan_.uses_mxcsr) {
      Bytes({0x0f, 0xae, 0x5c, 0x24, kMxcsrAt});  // stmxcsr
    }
  }

  void LoadFloatingPoint() {
    if (plan_.uses_x87) {
      Bytes({0x48, 0x0f, 0xae, 0x0a});  // fxrstor64 [rdx]
    } else if (plan_.uses_mxcsr) {
      Bytes({0x41, 0x0f, 0xae});  // ldmxcsr [state + mxcsr]
      Field(2, kMxcsrField);
    }
  }

  void StoreFloatingPoint() {
    if (plan_.uses_x87) {
      Bytes({0x48, 0x8b, 0x44, 0x24, kImageAt});  // mov rax, [rsp + image]
      Bytes({0x48, 0x0f, 0xae, 0x00});            // fxsave64 [rax]
    } else if (plan_.uses_mxcsr) {
      Bytes({0x41, 0x0f, 0xae});  // stmxcsr [state + mxcsr]
      Field(3, kMxcsrField);
    }
    RestoreHost();
  }

  void RestoreHost() {
    if (plan_.uses_x87) {
      Bytes({0xdb, 0xe3});                    // fninit
      Bytes({0xd9, 0x6c, 0x24, kControlAt});  // fldcw
    }
    if (plan_.uses_x87 || plan_.uses_mxcsr) {
      Bytes({0x0f, 0xae, 0x54, 0x24, kMxcsrAt});  // ldmxcsr
    }
    if (vex_ && !plan_.vectors.empty()) Bytes({0xc5, 0xf8, 0x77});  // vzeroupper
  }

  void Leave() {
    Bytes({0x48, 0x83, 0xc4, kFrameBytes});
    for (auto saved = std::rbegin(kCalleeSaved); saved != std::rend(kCalleeSaved); ++saved) {
      if ((used_ >> *saved & 1) == 0) continue;
      if (*saved >= 8) Byte(0x41);
      Byte(0x58 | (*saved & 7));
    }
    Byte(0xc3);
  }

  void LoadFlagsAndGprs() {
    if (plan_.needs_flags) {
      Bytes({0x41, 0x8b});  // mov eax, [state + rflags]
      Field(kRax, kFlagsField);
      Byte(0x25);  // and eax, arithmetic flags
      Word32(kArithmeticFlags);
      Bytes({0x50, 0x9d});  // push rax; popfq
    }
    // mov memory, rsi
    if (plan_.memory_register != kRsi) Bytes({0x48, 0x89, 0xf0u | plan_.memory_register});
    for (int i = 0; i < 16; ++i) {
      if ((plan_.gprs >> i & 1) != 0) MoveGpr(0x8b, i);
    }
  }

  void StoreGprsAndFlags() {
    for (int i = 0; i < 16; ++i) {
      if ((plan_.gprs_written >> i & 1) != 0) MoveGpr(0x89, i);
    }
    const auto defined = static_cast<uint32_t>(plan_.flags_defined);
    const auto changed = static_cast<uint32_t>(plan_.flags_defined | plan_.flags_undefined);
    if (changed == 0) return;
    Bytes({0x9c, 0x58});  // pushfq; pop rax
    Byte(0x25);           // and eax, defined
    Word32(defined);
    Bytes({0x41, 0x8b});  // mov ecx, [state + rflags]
    Field(kRcx, kFlagsField);
    Bytes({0x81, 0xe1});  // and ecx, ~changed
    Word32(~changed);
    Bytes({0x09, 0xc8});  // or eax, ecx
    Bytes({0x49, 0x89});  // mov [state + rflags], rax
    Field(kRax, kFlagsField);
  }

  void MoveGpr(unsigned opcode, int i) {
    const int host = i == kRsp ? plan_.rsp_stand_in : i;
    Bytes({0x49u | (host >= 8 ? 4u : 0u), opcode});
    Field(host, GprField(i));
  }

  void LoadVectors() {
    for (int i = 0; i < 8; ++i) {
      if ((plan_.opmasks >> i & 1) != 0) MoveOpmask(0x90, i);
    }
    for (const VectorUse& use : plan_.vectors) {
      const int i = use.number;
      if (i >= 16) {
        Evex512(0x10, i);
        Field(i, Zmm16Field(i));
        continue;
      }
      MoveXmm(0x10, i);
      if (use.bytes >= 32) VexWithByte(0x18, i, i, YmmField(i), 1);   // vinsertf128
      if (use.bytes >= 64) EvexWithByte(0x1a, i, i, ZmmField(i), 1);  // vinsertf64x4
    }
  }

  void StoreVectors() {
    for (int i = 0; i < 8; ++i) {
      if ((plan_.opmasks_written >> i & 1) == 0) continue;
      if (!wide_opmasks_) ClearWord(OpmaskField(i));
      MoveOpmask(0x91, i);
    }
    const bool evex = plan_.instruction.encoding == ZYDIS_INSTRUCTION_ENCODING_EVEX;
    bool clear_zmm = false;
    for (const VectorUse& use : plan_.vectors) {
      const int i = use.number;
      if (!use.written) continue;
      if (i >= 16) {
        Evex512(0x11, i);
        Field(i, Zmm16Field(i));
        continue;
      }
      MoveXmm(0x11, i);
      if (!plan_.clears_upper) continue;
      VexWithByte(0x19, i, 0, YmmField(i), 1);             // vextractf128
      if (evex) EvexWithByte(0x1b, i, 0, ZmmField(i), 1);  // vextractf64x4
      clear_zmm |= !evex;
    }
    if (!clear_zmm) return;
    Bytes({0xc5, 0xf9, 0xef, 0xc0});  // vpxor xmm0, xmm0, xmm0
    for (const VectorUse& use : plan_.vectors) {
      if (!use.written) continue;
      Bytes({0xc4, 0xc1, 0x7c, 0x11});  // vmovups [state + zmm], ymm0
      Field(0, ZmmField(use.number));
    }
  }

  void ClearWord(size_t field) {
    Bytes({0x49, 0xc7});  // mov qword [state + field], 0
    Field(0, field);
    Word32(0);
  }

  // kmovq, or kmovw where opmask registers have 16 bits.
  void MoveOpmask(unsigned opcode, int i) {
    Bytes({0xc4, 0xc1, wide_opmasks_ ? 0xf8u : 0x78u, opcode});
    Field(i, OpmaskField(i));
  }

  // movups, in the encoding of the instruction so that the two kinds are not mixed.
  void MoveXmm(unsigned opcode, int i) {
    const unsigned extended = i >= 8 ? 1 : 0;
    if (vex_) {
      Bytes({0xc4, 0x41u | (extended ^ 1) << 7, 0x78, opcode});
    } else {
      Bytes({0x41u | extended << 2, 0x0f, opcode});
    }
    Field(i, XmmField(i));
  }

  // VEX.256.66.0F3A.W0 opcode /r ib with operands i, source, [state + field].
  void VexWithByte(unsigned opcode, int i, int source, size_t field, unsigned byte) {
    const unsigned r = i >= 8 ? 0 : 0x80;
    Bytes({0xc4, r | 0x43, (~source & 0xfu) << 3 | 0x05, opcode});
    Field(i, field);
    Byte(byte);
  }

  // EVEX.512.66.0F3A.W1 opcode /r ib.
  void EvexWithByte(unsigned opcode, int i, int source, size_t field, unsigned byte) {
    const unsigned r = i >= 8 ? 0 : 0x80;
    Bytes({0x62, r | 0x53, 0x85 | (~source & 0xfu) << 3, 0x48, opcode});
    Field(i, field);
    Byte(byte);
  }

  // EVEX.512.0F.W0 opcode /r: vmovups.
  void Evex512(unsigned opcode, int i) {
    const unsigned r = (i & 8) != 0 ? 0 : 0x80, r_high = (i & 16) != 0 ? 0 : 0x10;
    Bytes({0x62, r | r_high | 0x41, 0x7c, 0x48, opcode});
  }

  const HostPlan& plan_;
  Stub stub_;
  uint8_t state_ = 0;
  uint32_t used_ = 0;
  bool vex_ = false;
  bool wide_opmasks_ = false;
};

}  // namespace

Stub WriteStub(const HostPlan& plan) { return StubWriter(plan).Write(); }

}  // namespace hindsight
