// Given a block that ends in a call, then the place after it lets only returns to it pass, and
// restores flags only if they are read; and the block tests the counter if nothing else surely
// does.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "translator/host/gs_shift.h"
#include "translator/stubs.h"
#include "translator/translator.h"

namespace hindsight {
namespace {

constexpr uint64_t kArena = 0x10000000, kGuest = 0x400000;
constexpr uint64_t kHost = kArena + kStubBytes;
// cmp %gs:-8(%rsp),%r11; jne
constexpr uint8_t kCompare[] = {0x65, 0x4c, 0x3b,
                                0x5c, 0x24, static_cast<uint8_t>(HS_GS_SHIFT - 8)};
constexpr uint8_t kJumpIfOther[] = {0x0f, 0x85};
// lahf; sahf restores what it has put aside.
constexpr uint8_t kRestoresFlags = 0x9e;

// `bytes` lie at kGuest; the block begins at `begin` of them.
TranslatedBlock BlockOf(const std::vector<uint8_t>& bytes, bool known, size_t begin = 0) {
  const Stubs stubs = EmitStubs(kArena);
  TranslateRequest request = {.guest_pc = kGuest + begin,
                              .bytes = absl::MakeConstSpan(bytes).subspan(begin),
                              .host_address = kHost,
                              .flavour = Flavour::kRecord,
                              .stubs = stubs.addresses};
  if (known) {
    request.code_at = [&](uint64_t pc) {
      const uint64_t offset = std::min(pc - kGuest, bytes.size());
      return absl::MakeConstSpan(bytes).subspan(offset);
    };
  }
  const auto block = Translate(request);
  EXPECT_TRUE(block.ok());
  return *block;
}

// Where the check of the return's target lies in the code.
std::vector<uint8_t>::const_iterator FindCheck(const TranslatedBlock& block) {
  return std::search(block.code.begin(), block.code.begin() + block.exits_offset,
                     std::begin(kCompare), std::end(kCompare));
}

void ExpectReturnsAreChecked(const std::vector<uint8_t>& bytes) {
  const TranslatedBlock block = BlockOf(bytes, false);
  const auto jump = FindCheck(block) + sizeof(kCompare);
  ASSERT_LT(jump + 6, block.code.end());
  ASSERT_TRUE(std::equal(std::begin(kJumpIfOther), std::end(kJumpIfOther), jump));
  int32_t rel32 = 0;
  std::memcpy(&rel32, &*(jump + 2), sizeof(rel32));
  const auto end = static_cast<uint64_t>(jump + 6 - block.code.begin());
  EXPECT_EQ(kHost + end + static_cast<uint64_t>(int64_t{rel32}),
            EmitStubs(kArena).addresses.search_return);
}

TEST(CallTest, OtherReturnsThanItsOwnSearchWhereTheyLead) {
  ExpectReturnsAreChecked({0xe8, 0x00, 0x01, 0x00, 0x00});  // call
  ExpectReturnsAreChecked({0xff, 0xd3});                    // call *%rbx
  ExpectReturnsAreChecked({0x53, 0xff, 0x54, 0x24, 0x10});  // push %rbx; call *16(%rsp)
}

// Whether flags are restored between the check and the link to what follows the call.
bool RestoresFlags(const std::vector<uint8_t>& bytes, bool known = true) {
  constexpr uint64_t kCallBytes = 5;
  const TranslatedBlock block = BlockOf(bytes, known);
  const auto link = std::find_if(block.links.begin(), block.links.end(), [](const Link& at) {
    return at.guest_target == kGuest + kCallBytes;
  });
  EXPECT_NE(link, block.links.end());
  const auto check = FindCheck(block), branch = block.code.begin() + link->rel32_offset;
  EXPECT_LT(check, branch);
  return std::find(check, branch, kRestoresFlags) != branch;
}

TEST(CallTest, ThePlaceRestoresFlagsOnlyIfTheyAreRead) {
  // call; test %rax,%rax; ret
  EXPECT_FALSE(RestoresFlags({0xe8, 0, 1, 0, 0, 0x48, 0x85, 0xc0, 0xc3}));
  // call; jc
  EXPECT_TRUE(RestoresFlags({0xe8, 0, 1, 0, 0, 0x72, 0x10}));
  // call, and nobody knows what follows.
  EXPECT_TRUE(RestoresFlags({0xe8, 0, 1, 0, 0}, false));
}

// Whether there is a jump by the counter's sign: js, or bswap, which is for where flags must stay.
bool TestsCounter(const TranslatedBlock& block) {
  constexpr uint8_t kJumpIfNegative[] = {0x0f, 0x88}, kTestWithoutFlags[] = {0x48, 0x0f, 0xc9};
  const auto begin = block.code.begin(), end = begin + block.exits_offset;
  return std::search(begin, end, std::begin(kJumpIfNegative), std::end(kJumpIfNegative)) != end ||
         std::search(begin, end, std::begin(kTestWithoutFlags), std::end(kTestWithoutFlags)) != end;
}

TEST(CallTest, ACallBackTestsTheCounterUnlessWhatItCallsDoes) {
  // endbr64; jmp *%rax, as in a procedure linkage table; and a call of it.
  const std::vector<uint8_t> to_jump = {0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0xe0,
                                        0xe8, 0xf5, 0xff, 0xff, 0xff};
  constexpr size_t kCall = 6;
  EXPECT_FALSE(TestsCounter(BlockOf(to_jump, true, kCall)));
  EXPECT_TRUE(TestsCounter(BlockOf(to_jump, false, kCall))) << "it may lead anywhere";
  // pop %rax; jmp to the call; and the call: a cycle without returns.
  const std::vector<uint8_t> cycle = {0x58, 0xeb, 0x03, 0x90, 0x90, 0x90,
                                      0xe8, 0xf5, 0xff, 0xff, 0xff};
  EXPECT_TRUE(TestsCounter(BlockOf(cycle, true, kCall)));
}

TEST(CallTest, ThatWhatItCallsTestsTheCounterIsReliedOn) {
  const std::vector<uint8_t> to_jump = {0xff, 0xe0, 0xe8, 0xf9, 0xff, 0xff, 0xff};
  const TranslatedBlock block = BlockOf(to_jump, true, 2);
  EXPECT_TRUE(std::any_of(block.relied_on.begin(), block.relied_on.end(),
                          [](const CodeRange& at) { return at.pc == kGuest && at.bytes == 2; }));
}

}  // namespace
}  // namespace hindsight
