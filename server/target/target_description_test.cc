#include "server/target/target_description.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <string>

#include "absl/strings/match.h"

namespace hindsight {
namespace {

absl::Span<const uint8_t> Bytes(const std::string& bytes) {
  return {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
}

uint64_t Integer(const std::string& bytes) {
  uint64_t value = 0;
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof(value)));
  return value;
}

// Random contents of the bits that exist in hardware.
RegisterFile SomeRegisters(unsigned seed) {
  std::mt19937_64 random(seed);
  RegisterFile r;
  for (uint64_t& word : r.gpr) word = random();
  r.rip = random();
  r.rflags = random() & 0xffffffff;
  r.fs_base = random();
  r.gs_base = random();
  for (uint64_t* selector : {&r.cs, &r.ss, &r.ds, &r.es, &r.fs, &r.gs})
    *selector = random() & 0xffff;
  r.mxcsr = random() & 0xffff;
  r.fcw = random() & 0xffff;
  r.fsw = random() & 0xffff;
  r.ftw = random() & 0xff;
  r.fop = random() & 0x7ff;
  r.fip = random() & 0xffffffffffff;
  r.fdp = random() & 0xffffffffffff;
  for (auto& st : r.st) {
    st[0] = random();
    st[1] = random() & 0xffff;
  }
  for (auto& xmm : r.xmm) xmm[0] = random(), xmm[1] = random();
  for (auto& part : r.ymm_high) std::generate_n(part, 2, std::ref(random));
  for (auto& part : r.zmm_high) std::generate_n(part, 4, std::ref(random));
  for (auto& zmm : r.zmm16) std::generate_n(zmm, 8, std::ref(random));
  std::generate_n(r.k, 8, std::ref(random));
  return r;
}

TEST(TargetDescriptionTest, EncodingAndDecodingAllRegistersChangesNothing) {
  for (unsigned seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    const RegisterFile original = SomeRegisters(seed);
    RegisterFile copy;
    // fsw before ftag is not needed: the abridged tags do not depend on the top of the stack.
    for (int number = 0; number < kRegisterCount; ++number) {
      const std::string bytes = EncodeRegister(original, number);
      ASSERT_EQ(bytes.size() * 8, static_cast<size_t>(Registers()[number].bits));
      ASSERT_TRUE(DecodeRegister(Bytes(bytes), number, &copy));
    }
    EXPECT_EQ(copy, original);
  }
}

TEST(TargetDescriptionTest, GeneralRegistersHaveGdbsOrder) {
  RegisterFile r;
  for (int i = 0; i < 16; ++i) r.gpr[i] = i;
  const int encoding[] = {kRax, kRbx, kRcx, kRdx, kRsi, kRdi, kRbp, kRsp};
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(Integer(EncodeRegister(r, i)), static_cast<uint64_t>(encoding[i]));
  }
  for (int i = 8; i < 16; ++i) EXPECT_EQ(Integer(EncodeRegister(r, i)), static_cast<uint64_t>(i));
}

TEST(TargetDescriptionTest, TagsAreThoseOfFsave) {
  RegisterFile r;
  EXPECT_EQ(Integer(EncodeRegister(r, kRegisterFctrl + 2)), 0xffffu);  // all empty
  r.fsw = 6 << 11;  // two pushed: physical 6 is ST(0), 7 is ST(1)
  r.ftw = 0xc0;
  r.st[0][0] = uint64_t{1} << 63, r.st[0][1] = 0x3fff;                 // 1.0
  EXPECT_EQ(Integer(EncodeRegister(r, kRegisterFctrl + 2)), 0x4fffu);  // ST(1) is zero
  r.st[1][1] = 0x7fff;
  EXPECT_EQ(Integer(EncodeRegister(r, kRegisterFctrl + 2)), 0x8fffu);  // special
  r.st[1][1] = 0x3fff;
  EXPECT_EQ(Integer(EncodeRegister(r, kRegisterFctrl + 2)), 0x8fffu);  // unnormal
}

TEST(TargetDescriptionTest, OrigRaxReadsAsNoSystemCallAndForgetsWrites) {
  RegisterFile r;
  EXPECT_EQ(Integer(EncodeRegister(r, kRegisterOrigRax)), ~uint64_t{0});
  EXPECT_TRUE(DecodeRegister(Bytes(std::string(8, '\1')), kRegisterOrigRax, &r));
  EXPECT_EQ(r, RegisterFile());
}

TEST(TargetDescriptionTest, DecodeRejectsWrongSizesAndNumbers) {
  RegisterFile r;
  EXPECT_FALSE(DecodeRegister(Bytes(std::string(7, '\1')), kRegisterRip, &r));
  EXPECT_FALSE(DecodeRegister(Bytes(std::string(8, '\1')), kRegisterEflags, &r));
  EXPECT_FALSE(DecodeRegister(Bytes(std::string(8, '\1')), kRegisterCount, &r));
  EXPECT_FALSE(DecodeRegister(Bytes(std::string(8, '\1')), -1, &r));
  EXPECT_EQ(r, RegisterFile());
}

TEST(TargetDescriptionTest, VectorRegistersAreTheirPartsFromLowToHigh) {
  RegisterFile r;
  r.xmm[3][0] = 1;
  r.ymm_high[3][1] = 2;
  r.zmm_high[3][3] = 3;
  std::generate_n(r.zmm16[5], 8, [n = uint64_t{0}]() mutable { return n++; });
  r.k[2] = 0xf0;
  const auto word = [&r](int number, size_t index) {
    return Integer(EncodeRegister(r, number).substr(8 * index));
  };
  EXPECT_EQ(word(kRegisterXmm0 + 3, 0), 1u);
  EXPECT_EQ(word(kRegisterYmm0High + 3, 1), 2u);
  EXPECT_EQ(word(kRegisterZmm0High + 3, 3), 3u);
  EXPECT_EQ(word(kRegisterXmm16 + 5, 1), 1u);
  EXPECT_EQ(word(kRegisterYmm16High + 5, 0), 2u);
  EXPECT_EQ(word(kRegisterZmm0High + 21, 0), 4u);
  EXPECT_EQ(word(kRegisterK0 + 2, 0), 0xf0u);
}

TEST(TargetDescriptionTest, XmlIsOneDocumentWithEveryRegister) {
  for (const RegisterSet set : {RegisterSet::kSse, RegisterSet::kAvx512}) {
    const std::string& xml = TargetXml(set);
    EXPECT_FALSE(absl::StrContains(xml, "xi:include"));
    for (const RegisterInfo& info : Registers(set)) {
      EXPECT_TRUE(absl::StrContains(xml, "<reg name=\"" + info.name + "\"")) << info.name;
    }
    for (const char* feature : {"core", "sse", "linux", "segments"}) {
      EXPECT_TRUE(absl::StrContains(xml, "org.gnu.gdb.i386." + std::string(feature) + "\">"));
    }
    for (const char* feature : {"avx", "avx512"}) {
      EXPECT_EQ(absl::StrContains(xml, "org.gnu.gdb.i386." + std::string(feature) + "\">"),
                set == RegisterSet::kAvx512);
    }
  }
}

TEST(TargetDescriptionTest, NumbersAreThoseOfTheTable) {
  const absl::Span<const RegisterInfo> all = Registers();
  ASSERT_EQ(all.size(), static_cast<size_t>(kRegisterCount));
  EXPECT_EQ(all[kRegisterYmm0High].name, "ymm0h");
  EXPECT_EQ(all[kRegisterXmm16].name, "xmm16");
  EXPECT_EQ(all[kRegisterYmm16High].name, "ymm16h");
  EXPECT_EQ(all[kRegisterK0].name, "k0");
  EXPECT_EQ(all[kRegisterZmm0High].name, "zmm0h");
  EXPECT_EQ(all.back().name, "zmm31h");
}

}  // namespace
}  // namespace hindsight
