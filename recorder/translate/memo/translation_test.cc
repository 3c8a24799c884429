#include "recorder/translate/memo/translation.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <link.h>

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "recorder/translate/base/layout.h"
#include "translator/stubs.h"

namespace hindsight {
namespace {

constexpr uint64_t kGuest = kLibraryWindow.start + 0x100000;
constexpr uint64_t kHere = kLibraryArena + 0x10000, kThere = kLibraryArena + 0x7654320;

int AddLibraryCode(dl_phdr_info* object, size_t, void* out) {
  if (!absl::StrContains(object->dlpi_name, "/libc.so")) return 0;
  auto* const all = static_cast<std::vector<absl::Span<const uint8_t>>*>(out);
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    const auto* bytes = reinterpret_cast<const uint8_t*>(object->dlpi_addr + segment.p_vaddr);
    all->emplace_back(bytes, segment.p_filesz);
  }
  return 0;
}

// The C library's. (In what is no code there are operands that only one of two places can reach.)
absl::Span<const uint8_t> LibraryCode() {
  std::vector<absl::Span<const uint8_t>> all;
  dl_iterate_phdr(AddLibraryCode, &all);
  return *std::max_element(all.begin(), all.end(),
                           [](auto one, auto other) { return one.size() < other.size(); });
}

class TranslationTest : public testing::TestWithParam<Flavour> {
 protected:
  absl::StatusOr<TranslatedBlock> Translate(uint64_t pc, uint64_t host) const {
    static const StubAddresses stubs = EmitStubs(kLibraryArena).addresses;
    return hindsight::Translate({.guest_pc = pc,
                                 .bytes = code_.subspan(pc - kGuest),
                                 .host_address = host,
                                 .flavour = GetParam(),
                                 .stubs = stubs,
                                 .operations = GetParam() == Flavour::kRecord,
                                 .order = MemoryModel::kFence});
  }

  const absl::Span<const uint8_t> code_ = LibraryCode();
};

TEST_P(TranslationTest, MovedCodeIsWhatWouldHaveBeenTranslatedThere) {
  StoragePool pool;
  int blocks = 0;
  for (uint64_t offset = 0; offset + 256 < code_.size() && blocks < 20'000;) {
    const uint64_t pc = kGuest + offset;
    const auto here = Translate(pc, kHere), there = Translate(pc, kThere);
    ASSERT_EQ(here.ok(), there.ok());
    offset += here.ok() ? std::max<uint32_t>(here->guest_bytes, 1) : 1;
    if (!here.ok()) continue;
    const auto moved = MakeTranslation(
        pc, kHere, *here, [&](uint64_t address) { return code_.subspan(address - kGuest); }, &pool);
    const HostPlace place = {kThere, kThere + there->exits_offset};
    ASSERT_TRUE(CanMove(*moved, place));
    std::vector<uint8_t> code(here->code.size());
    WriteCode(*moved, place, code.data(), code.data() + here->exits_offset);
    ASSERT_EQ(code, there->code) << "at offset " << offset << " of the C library's code";
    ++blocks;
  }
  EXPECT_GT(blocks, 10'000);
}

TEST_P(TranslationTest, MovedBlockIsWhatWouldHaveBeenTranslatedThere) {
  constexpr uint32_t kDistance = 3 * kHostAlignment;
  int blocks = 0;
  for (uint64_t offset = 0; offset + 256 < code_.size() && blocks < 20'000;) {
    const uint64_t pc = kGuest + offset;
    auto here = Translate(pc, kHere);
    const auto there = Translate(pc, kHere + kDistance);
    ASSERT_EQ(here.ok(), there.ok());
    offset += here.ok() ? std::max<uint32_t>(here->guest_bytes, 1) : 1;
    if (!here.ok()) continue;
    ASSERT_TRUE(MoveBlock(kDistance, &*here));
    ASSERT_EQ(here->code, there->code) << "at offset " << offset << " of the C library's code";
    ++blocks;
  }
  EXPECT_GT(blocks, 10'000);
}

INSTANTIATE_TEST_SUITE_P(Flavours, TranslationTest,
                         testing::Values(Flavour::kPlain, Flavour::kRecord));

TEST(TranslationMoveTest, OutOfReachIsRefused) {
  StoragePool pool;
  TranslatedBlock block;
  block.code = {0xe9, 0, 0, 0, 0x80};  // as far back as can be
  block.outward = {1};
  block.exits_offset = 5;
  const auto made = MakeTranslation(
      kGuest, kHere, block, [](uint64_t) { return absl::Span<const uint8_t>(); }, &pool);
  EXPECT_TRUE(CanMove(*made, {kHere, 0}));
  EXPECT_TRUE(CanMove(*made, {kHere - 16, 0}));
  EXPECT_FALSE(CanMove(*made, {kHere + 16, 0}));
}

TEST(TranslationMoveTest, BlockThatWouldBeOutOfReachStaysAsItIs) {
  TranslatedBlock block;
  block.code = {0xe9, 0xff, 0xff, 0xff, 0x7f, 0xe9, 0x10, 0, 0, 0x80};
  block.outward = {1, 6};
  const std::vector<uint8_t> code = block.code;
  EXPECT_FALSE(MoveBlock(0x20, &block));
  EXPECT_EQ(block.code, code);
  EXPECT_TRUE(MoveBlock(0x10, &block));
  EXPECT_EQ(block.code[6], 0);
}

}  // namespace
}  // namespace hindsight
