#include "server/target_description.h"

#include <cstring>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace hindsight {
namespace {

constexpr char kCore[] = "org.gnu.gdb.i386.core";
constexpr char kSse[] = "org.gnu.gdb.i386.sse";
constexpr char kLinux[] = "org.gnu.gdb.i386.linux";
constexpr char kSegments[] = "org.gnu.gdb.i386.segments";

constexpr RegisterInfo kRegisters[] = {
    {"rax", 64, "int64", nullptr, kCore},        {"rbx", 64, "int64", nullptr, kCore},
    {"rcx", 64, "int64", nullptr, kCore},        {"rdx", 64, "int64", nullptr, kCore},
    {"rsi", 64, "int64", nullptr, kCore},        {"rdi", 64, "int64", nullptr, kCore},
    {"rbp", 64, "data_ptr", nullptr, kCore},     {"rsp", 64, "data_ptr", nullptr, kCore},
    {"r8", 64, "int64", nullptr, kCore},         {"r9", 64, "int64", nullptr, kCore},
    {"r10", 64, "int64", nullptr, kCore},        {"r11", 64, "int64", nullptr, kCore},
    {"r12", 64, "int64", nullptr, kCore},        {"r13", 64, "int64", nullptr, kCore},
    {"r14", 64, "int64", nullptr, kCore},        {"r15", 64, "int64", nullptr, kCore},
    {"rip", 64, "code_ptr", nullptr, kCore},     {"eflags", 32, "i386_eflags", nullptr, kCore},
    {"cs", 32, "int32", nullptr, kCore},         {"ss", 32, "int32", nullptr, kCore},
    {"ds", 32, "int32", nullptr, kCore},         {"es", 32, "int32", nullptr, kCore},
    {"fs", 32, "int32", nullptr, kCore},         {"gs", 32, "int32", nullptr, kCore},
    {"st0", 80, "i387_ext", nullptr, kCore},     {"st1", 80, "i387_ext", nullptr, kCore},
    {"st2", 80, "i387_ext", nullptr, kCore},     {"st3", 80, "i387_ext", nullptr, kCore},
    {"st4", 80, "i387_ext", nullptr, kCore},     {"st5", 80, "i387_ext", nullptr, kCore},
    {"st6", 80, "i387_ext", nullptr, kCore},     {"st7", 80, "i387_ext", nullptr, kCore},
    {"fctrl", 32, "int", "float", kCore},        {"fstat", 32, "int", "float", kCore},
    {"ftag", 32, "int", "float", kCore},         {"fiseg", 32, "int", "float", kCore},
    {"fioff", 32, "int", "float", kCore},        {"foseg", 32, "int", "float", kCore},
    {"fooff", 32, "int", "float", kCore},        {"fop", 32, "int", "float", kCore},
    {"xmm0", 128, "vec128", nullptr, kSse},      {"xmm1", 128, "vec128", nullptr, kSse},
    {"xmm2", 128, "vec128", nullptr, kSse},      {"xmm3", 128, "vec128", nullptr, kSse},
    {"xmm4", 128, "vec128", nullptr, kSse},      {"xmm5", 128, "vec128", nullptr, kSse},
    {"xmm6", 128, "vec128", nullptr, kSse},      {"xmm7", 128, "vec128", nullptr, kSse},
    {"xmm8", 128, "vec128", nullptr, kSse},      {"xmm9", 128, "vec128", nullptr, kSse},
    {"xmm10", 128, "vec128", nullptr, kSse},     {"xmm11", 128, "vec128", nullptr, kSse},
    {"xmm12", 128, "vec128", nullptr, kSse},     {"xmm13", 128, "vec128", nullptr, kSse},
    {"xmm14", 128, "vec128", nullptr, kSse},     {"xmm15", 128, "vec128", nullptr, kSse},
    {"mxcsr", 32, "i386_mxcsr", "vector", kSse}, {"orig_rax", 64, "int", "system", kLinux},
    {"fs_base", 64, "int", nullptr, kSegments},  {"gs_base", 64, "int", nullptr, kSegments},
};
static_assert(std::size(kRegisters) == kRegisterCount);

constexpr char kCoreTypes[] = R"(
    <flags id="i386_eflags" size="4">
      <field name="CF" start="0" end="0"/>
      <field name="" start="1" end="1"/>
      <field name="PF" start="2" end="2"/>
      <field name="AF" start="4" end="4"/>
      <field name="ZF" start="6" end="6"/>
      <field name="SF" start="7" end="7"/>
      <field name="TF" start="8" end="8"/>
      <field name="IF" start="9" end="9"/>
      <field name="DF" start="10" end="10"/>
      <field name="OF" start="11" end="11"/>
      <field name="NT" start="14" end="14"/>
      <field name="RF" start="16" end="16"/>
      <field name="VM" start="17" end="17"/>
      <field name="AC" start="18" end="18"/>
      <field name="VIF" start="19" end="19"/>
      <field name="VIP" start="20" end="20"/>
      <field name="ID" start="21" end="21"/>
    </flags>
)";

constexpr char kSseTypes[] = R"(
    <vector id="v4f" type="ieee_single" count="4"/>
    <vector id="v2d" type="ieee_double" count="2"/>
    <vector id="v16i8" type="int8" count="16"/>
    <vector id="v8i16" type="int16" count="8"/>
    <vector id="v4i32" type="int32" count="4"/>
    <vector id="v2i64" type="int64" count="2"/>
    <union id="vec128">
      <field name="v4_float" type="v4f"/>
      <field name="v2_double" type="v2d"/>
      <field name="v16_int8" type="v16i8"/>
      <field name="v8_int16" type="v8i16"/>
      <field name="v4_int32" type="v4i32"/>
      <field name="v2_int64" type="v2i64"/>
      <field name="uint128" type="uint128"/>
    </union>
    <flags id="i386_mxcsr" size="4">
      <field name="IE" start="0" end="0"/>
      <field name="DE" start="1" end="1"/>
      <field name="ZE" start="2" end="2"/>
      <field name="OE" start="3" end="3"/>
      <field name="UE" start="4" end="4"/>
      <field name="PE" start="5" end="5"/>
      <field name="DAZ" start="6" end="6"/>
      <field name="IM" start="7" end="7"/>
      <field name="DM" start="8" end="8"/>
      <field name="ZM" start="9" end="9"/>
      <field name="OM" start="10" end="10"/>
      <field name="UM" start="11" end="11"/>
      <field name="PM" start="12" end="12"/>
      <field name="FZ" start="15" end="15"/>
    </flags>
)";

std::string BuildXml() {
  std::string xml =
      "<?xml version=\"1.0\"?>\n<!DOCTYPE target SYSTEM \"gdb-target.dtd\">\n<target>\n"
      "  <architecture>i386:x86-64</architecture>\n  <osabi>GNU/Linux</osabi>\n";
  const char* feature = nullptr;
  for (int number = 0; number < kRegisterCount; ++number) {
    const RegisterInfo& info = kRegisters[number];
    if (feature == nullptr || std::strcmp(feature, info.feature) != 0) {
      if (feature != nullptr) absl::StrAppend(&xml, "  </feature>\n");
      feature = info.feature;
      absl::StrAppend(&xml, "  <feature name=\"", feature, "\">");
      if (feature == kCore) {
        absl::StrAppend(&xml, kCoreTypes);
      } else if (feature == kSse) {
        absl::StrAppend(&xml, kSseTypes);
      } else {
        absl::StrAppend(&xml, "\n");
      }
    }
    absl::StrAppend(&xml, "    <reg name=\"", info.name, "\" bitsize=\"", info.bits, "\" type=\"",
                    info.type, "\" regnum=\"", number, "\"");
    if (info.group != nullptr) absl::StrAppend(&xml, " group=\"", info.group, "\"");
    absl::StrAppend(&xml, "/>\n");
  }
  absl::StrAppend(&xml, "  </feature>\n</target>\n");
  return xml;
}

// The word of the register file that holds an integer register; nullptr for the others.
uint64_t* IntegerWord(int number, RegisterFile* r) {
  // gdb's order of the first eight differs from that of the encoding.
  static constexpr Gpr kGprs[] = {kRax, kRbx, kRcx, kRdx, kRsi, kRdi, kRbp, kRsp,
                                  kR8,  kR9,  kR10, kR11, kR12, kR13, kR14, kR15};
  if (number >= 0 && number < 16) return &r->gpr[kGprs[number]];
  switch (number) {
    case kRegisterRip:
      return &r->rip;
    case kRegisterEflags:
      return &r->rflags;
    case kRegisterCs:
      return &r->cs;
    case kRegisterCs + 1:
      return &r->ss;
    case kRegisterCs + 2:
      return &r->ds;
    case kRegisterCs + 3:
      return &r->es;
    case kRegisterCs + 4:
      return &r->fs;
    case kRegisterCs + 5:
      return &r->gs;
    case kRegisterMxcsr:
      return &r->mxcsr;
    case kRegisterFsBase:
      return &r->fs_base;
    case kRegisterGsBase:
      return &r->gs_base;
    default:
      return nullptr;
  }
}

// The two bits that FSAVE would show for the register with these contents (SDM vol. 1, 8.1.7).
uint64_t Tag(const uint64_t st[2]) {
  constexpr uint64_t kValid = 0, kZero = 1, kSpecial = 2;
  const uint64_t exponent = st[1] & 0x7fff;
  if (exponent == 0x7fff) return kSpecial;
  if (exponent == 0) return st[0] == 0 ? kZero : kSpecial;
  return st[0] >> 63 != 0 ? kValid : kSpecial;
}

uint64_t FullTagWord(const RegisterFile& r) {
  constexpr uint64_t kEmpty = 3;
  const uint64_t top = r.fsw >> 11 & 7;
  uint64_t tags = 0;
  for (uint64_t i = 0; i < 8; ++i) {
    const bool used = (r.ftw >> i & 1) != 0;
    // Tags belong to physical registers, the contents are ordered from the top of the stack.
    tags |= (used ? Tag(r.st[(i - top) & 7]) : kEmpty) << (2 * i);
  }
  return tags;
}

uint64_t AbridgedTagWord(uint64_t tags) {
  uint64_t abridged = 0;
  for (int i = 0; i < 8; ++i) abridged |= uint64_t{(tags >> (2 * i) & 3) != 3} << i;
  return abridged;
}

// fctrl, fstat, ftag, fiseg, fioff, foseg, fooff, fop: numbers 0 to 7.
uint64_t ReadControl(const RegisterFile& r, int which) {
  switch (which) {
    case 0:
      return r.fcw;
    case 1:
      return r.fsw;
    case 2:
      return FullTagWord(r);
    case 3:
      return r.fip >> 32 & 0xffff;
    case 4:
      return r.fip & 0xffffffff;
    case 5:
      return r.fdp >> 32 & 0xffff;
    case 6:
      return r.fdp & 0xffffffff;
    default:
      return r.fop;
  }
}

void WriteControl(uint64_t value, int which, RegisterFile* r) {
  constexpr uint64_t kLow = 0xffffffff;
  switch (which) {
    case 0:
      r->fcw = value & 0xffff;
      break;
    case 1:
      r->fsw = value & 0xffff;
      break;
    // Writing back what was read must change nothing, also where the tags lose information.
    case 2:
      r->ftw = AbridgedTagWord(value);
      break;
    case 3:
      r->fip = (r->fip & ~(uint64_t{0xffff} << 32)) | (value & 0xffff) << 32;
      break;
    case 4:
      r->fip = (r->fip & ~kLow) | (value & kLow);
      break;
    case 5:
      r->fdp = (r->fdp & ~(uint64_t{0xffff} << 32)) | (value & 0xffff) << 32;
      break;
    case 6:
      r->fdp = (r->fdp & ~kLow) | (value & kLow);
      break;
    default:
      r->fop = value & 0x7ff;
      break;
  }
}

std::string LittleEndian(uint64_t value, int bits) {
  return std::string(reinterpret_cast<const char*>(&value), bits / 8);
}

}  // namespace

absl::Span<const RegisterInfo> Registers() { return kRegisters; }

const std::string& TargetXml() {
  static const std::string& xml = *new std::string(BuildXml());
  return xml;
}

std::string EncodeRegister(const RegisterFile& registers, int number) {
  CHECK(number >= 0 && number < kRegisterCount);
  const size_t size = kRegisters[number].bits / 8;
  if (const uint64_t* word = IntegerWord(number, const_cast<RegisterFile*>(&registers))) {
    return LittleEndian(*word, kRegisters[number].bits);
  }
  if (number >= kRegisterXmm0 && number < kRegisterMxcsr) {
    return std::string(reinterpret_cast<const char*>(registers.xmm[number - kRegisterXmm0]), size);
  }
  if (number >= kRegisterSt0 && number < kRegisterFctrl) {
    return std::string(reinterpret_cast<const char*>(registers.st[number - kRegisterSt0]), size);
  }
  if (number == kRegisterOrigRax) return std::string(size, '\xff');
  return LittleEndian(ReadControl(registers, number - kRegisterFctrl), kRegisters[number].bits);
}

bool DecodeRegister(absl::Span<const uint8_t> bytes, int number, RegisterFile* registers) {
  if (number < 0 || number >= kRegisterCount) return false;
  if (bytes.size() != static_cast<size_t>(kRegisters[number].bits / 8)) return false;
  uint64_t value = 0;
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof(value)));
  if (uint64_t* word = IntegerWord(number, registers)) {
    *word = value;
  } else if (number >= kRegisterXmm0 && number < kRegisterMxcsr) {
    std::memcpy(registers->xmm[number - kRegisterXmm0], bytes.data(), bytes.size());
  } else if (number >= kRegisterSt0 && number < kRegisterFctrl) {
    std::memcpy(registers->st[number - kRegisterSt0], bytes.data(), bytes.size());
  } else if (number != kRegisterOrigRax) {
    WriteControl(value, number - kRegisterFctrl, registers);
  }
  return true;
}

}  // namespace hindsight
