#include "translator/guest/decode_memo.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/match.h"
#include "isa/decoder.h"

namespace hindsight {
namespace {

GuestInstruction Decoded(absl::Span<const uint8_t> code) {
  GuestInstruction instruction;
  EXPECT_TRUE(DecodeGuest(0, code, &instruction));
  return instruction;
}

TEST(DecodeMemoTest, WhatWasAddedIsFoundWhateverFollowsIt) {
  const std::vector<uint8_t> call = {0xe8, 1, 2, 3, 4, 0x90}, then_ret = {0xe8, 1, 2, 3, 4, 0xc3};
  DecodeMemo memo;
  EXPECT_EQ(memo.Find(call), nullptr);
  memo.Add(call, Decoded(call));
  ASSERT_NE(memo.Find(then_ret), nullptr);
  EXPECT_EQ(memo.Find(then_ret)->decoded.mnemonic, ZYDIS_MNEMONIC_CALL);
}

TEST(DecodeMemoTest, AnotherInstructionWithTheSameBeginningIsNotTheSame) {
  const std::vector<uint8_t> call = {0xe8, 1, 2, 3, 4}, other = {0xe8, 1, 2, 3, 5};
  DecodeMemo memo;
  memo.Add(call, Decoded(call));
  EXPECT_EQ(memo.Find(other), nullptr);
  memo.Add(other, Decoded(other));
  EXPECT_NE(memo.Find(other), nullptr);
  EXPECT_EQ(memo.Find(call), nullptr) << "it has been displaced";
}

TEST(DecodeMemoTest, WhatIsThereInPartIsNotFound) {
  const std::vector<uint8_t> call = {0xe8, 1, 2, 3, 4};
  DecodeMemo memo;
  memo.Add(call, Decoded(call));
  for (size_t size = 0; size < call.size(); ++size) {
    EXPECT_EQ(memo.Find(absl::MakeConstSpan(call).first(size)), nullptr) << size;
  }
  const std::vector<uint8_t> ret = {0xc3};
  memo.Add(ret, Decoded(ret));
  EXPECT_EQ(memo.Find(ret), nullptr) << "too short to be looked up";
}

int AddLibraryCode(dl_phdr_info* object, size_t, void* out) {
  if (!absl::StrContains(object->dlpi_name, "/libc.so")) return 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    const auto* bytes = reinterpret_cast<const uint8_t*>(object->dlpi_addr + segment.p_vaddr);
    *static_cast<absl::Span<const uint8_t>*>(out) = {bytes, segment.p_filesz};
  }
  return 0;
}

TEST(DecodeMemoTest, DecodedWithItALibraryIsTheSame) {
  absl::Span<const uint8_t> code;
  dl_iterate_phdr(AddLibraryCode, &code);
  ASSERT_GT(code.size(), 1'000'000u);
  // From each byte: also what is none of the library's instructions.
  uint64_t instructions = 0;
  for (size_t at = 0; at + ZYDIS_MAX_INSTRUCTION_LENGTH < code.size(); ++at) {
    GuestInstruction with, without;
    const bool is = Decode(code.subspan(at), &without.decoded, without.operands);
    ASSERT_EQ(DecodeGuest(at, code.subspan(at), &with), is) << at;
    if (!is) continue;
    ++instructions;
    ASSERT_EQ(with.pc, at);
    ASSERT_EQ(with.Bytes(), code.subspan(at, without.decoded.length));
    ASSERT_EQ(std::memcmp(&with.decoded, &without.decoded, sizeof(with.decoded)), 0) << at;
    ASSERT_EQ(std::memcmp(with.operands, without.operands, sizeof(with.operands)), 0) << at;
  }
  EXPECT_GT(instructions, 1'000'000u);
}

}  // namespace
}  // namespace hindsight
