// The table of registers, and the document made from it.

#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "server/target/target_description.h"

namespace hindsight {
namespace {

constexpr char kCore[] = "org.gnu.gdb.i386.core";
constexpr char kSse[] = "org.gnu.gdb.i386.sse";
constexpr char kLinux[] = "org.gnu.gdb.i386.linux";
constexpr char kSegments[] = "org.gnu.gdb.i386.segments";
constexpr char kAvx[] = "org.gnu.gdb.i386.avx";
constexpr char kAvx512[] = "org.gnu.gdb.i386.avx512";

const RegisterInfo kBasic[] = {
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
static_assert(std::size(kBasic) == kBasicRegisterCount);

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

// Types belong to the feature that defines them, so both define vec128.
constexpr char kVec128Types[] = R"(
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
)";
constexpr char kSseTypes[] = R"(    <flags id="i386_mxcsr" size="4">
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
constexpr char kAvx512Types[] = R"(    <vector id="v2ui128" type="uint128" count="2"/>
)";

std::string TypesOf(const char* feature) {
  if (feature == kCore) return kCoreTypes;
  if (feature == kSse) return absl::StrCat(kVec128Types, kSseTypes);
  if (feature == kAvx512) return absl::StrCat(kVec128Types, kAvx512Types);
  return "\n";
}

std::vector<RegisterInfo> BuildTable(RegisterSet set) {
  std::vector<RegisterInfo> table(std::begin(kBasic), std::end(kBasic));
  if (set == RegisterSet::kSse) return table;
  const auto add = [&table](const char* prefix, int first, int last, const char* suffix, int bits,
                            const char* type, const char* feature) {
    for (int i = first; i <= last; ++i) {
      table.push_back({absl::StrCat(prefix, i, suffix), bits, type, nullptr, feature});
    }
  };
  add("ymm", 0, 15, "h", 128, "uint128", kAvx);
  add("xmm", 16, 31, "", 128, "vec128", kAvx512);
  add("ymm", 16, 31, "h", 128, "uint128", kAvx512);
  add("k", 0, 7, "", 64, "uint64", kAvx512);
  add("zmm", 0, 31, "h", 256, "v2ui128", kAvx512);
  CHECK(table.size() == kRegisterCount);
  return table;
}

std::string BuildXml(RegisterSet set) {
  std::string xml =
      "<?xml version=\"1.0\"?>\n<!DOCTYPE target SYSTEM \"gdb-target.dtd\">\n<target>\n"
      "  <architecture>i386:x86-64</architecture>\n  <osabi>GNU/Linux</osabi>\n";
  const char* feature = nullptr;
  int number = 0;
  for (const RegisterInfo& info : Registers(set)) {
    if (feature != info.feature) {
      if (feature != nullptr) absl::StrAppend(&xml, "  </feature>\n");
      feature = info.feature;
      absl::StrAppend(&xml, "  <feature name=\"", feature, "\">", TypesOf(feature));
    }
    absl::StrAppend(&xml, "    <reg name=\"", info.name, "\" bitsize=\"", info.bits, "\" type=\"",
                    info.type, "\" regnum=\"", number++, "\"");
    if (info.group != nullptr) absl::StrAppend(&xml, " group=\"", info.group, "\"");
    absl::StrAppend(&xml, "/>\n");
  }
  absl::StrAppend(&xml, "  </feature>\n</target>\n");
  return xml;
}

}  // namespace

absl::Span<const RegisterInfo> Registers(RegisterSet set) {
  static const auto& sse = *new std::vector<RegisterInfo>(BuildTable(RegisterSet::kSse));
  static const auto& avx512 = *new std::vector<RegisterInfo>(BuildTable(RegisterSet::kAvx512));
  return set == RegisterSet::kSse ? sse : avx512;
}

const std::string& TargetXml(RegisterSet set) {
  static const std::string& sse = *new std::string(BuildXml(RegisterSet::kSse));
  static const std::string& avx512 = *new std::string(BuildXml(RegisterSet::kAvx512));
  return set == RegisterSet::kSse ? sse : avx512;
}

}  // namespace hindsight
