#include "recorder/translate/memo/seen_code.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace hindsight {
namespace {

constexpr uint64_t kStart = 0x10000;

// What a translation was made from and has relied on.
struct Source {
  uint64_t pc;
  std::vector<uint8_t> bytes;
  std::vector<CodeRange> ranges;
  std::vector<uint8_t> relied_on;  // of all ranges

  bool AddTo(SeenCode* seen) const {
    Translation translation;
    translation.guest_pc = pc;
    translation.bytes = bytes;
    translation.block.relied_on = ranges;
    translation.relied_on = relied_on;
    return seen->Add(translation);
  }
};

struct Taken {
  std::vector<CodeRange> ranges;
  std::vector<uint8_t> bytes;
};

Taken Take(const SeenCode& seen) {
  Taken taken;
  seen.Take(&taken.ranges, &taken.bytes);
  return taken;
}

TEST(SeenCodeTest, RangesThatTouchAreOneUnlessAPageEndsThere) {
  SeenCode seen;
  EXPECT_TRUE((Source{kStart + 60, {1, 2, 3}, {{kStart + 63, 2}}, {4, 5}}.AddTo(&seen)));
  EXPECT_TRUE((Source{kStart + kPageBytes - 1, {6, 7}, {}, {}}.AddTo(&seen)));
  const Taken taken = Take(seen);
  ASSERT_EQ(taken.ranges.size(), 3u);
  EXPECT_EQ(taken.ranges[0].pc, kStart + 60);
  EXPECT_EQ(taken.ranges[0].bytes, 5u);
  EXPECT_EQ(taken.ranges[1].pc, kStart + kPageBytes - 1);
  EXPECT_EQ(taken.ranges[1].bytes, 1u);
  EXPECT_EQ(taken.ranges[2].pc, kStart + kPageBytes);
  EXPECT_EQ(taken.bytes, (std::vector<uint8_t>{1, 2, 3, 4, 5, 6, 7}));
}

TEST(SeenCodeTest, OfWhatContradictsOthersNothingIsAdded) {
  SeenCode seen;
  EXPECT_TRUE((Source{kStart, {1, 2, 3}, {}, {}}.AddTo(&seen)));
  EXPECT_FALSE((Source{kStart + 100, {8}, {{kStart + 2, 1}}, {4}}.AddTo(&seen)));
  EXPECT_EQ(Take(seen).bytes, (std::vector<uint8_t>{1, 2, 3}));
  EXPECT_TRUE((Source{kStart + 100, {8}, {{kStart + 2, 1}}, {3}}.AddTo(&seen)));
  EXPECT_EQ(Take(seen).bytes, (std::vector<uint8_t>{1, 2, 3, 8}));
}

// Compared with a map from addresses to bytes.
TEST(SeenCodeTest, WhateverIsAddedItIsWhatAMapHas) {
  std::mt19937_64 random(1);
  std::map<uint64_t, uint8_t> expected;
  SeenCode seen;
  for (int i = 0; i < 2000; ++i) {
    const auto code_at = [&](uint64_t pc, uint64_t size) {
      std::vector<uint8_t> bytes;
      // Now and then another byte than all others find there.
      for (uint64_t at = pc; at < pc + size; ++at) {
        bytes.push_back(static_cast<uint8_t>(at * 31 + (random() % 400 == 0)));
      }
      return bytes;
    };
    Source source = {kStart + random() % (3 * kPageBytes), {}, {}, {}};
    source.bytes = code_at(source.pc, random() % 150);
    for (uint64_t pc = source.pc + 200; random() % 4 != 0;) {
      source.ranges.push_back({pc, static_cast<uint32_t>(random() % 9)});
      const std::vector<uint8_t> bytes = code_at(pc, source.ranges.back().bytes);
      source.relied_on.insert(source.relied_on.end(), bytes.begin(), bytes.end());
      pc = random() % 2 == 0 ? pc + bytes.size() : kStart + random() % (3 * kPageBytes);
    }
    std::vector<std::pair<uint64_t, uint8_t>> all;
    for (size_t k = 0; k < source.bytes.size(); ++k)
      all.emplace_back(source.pc + k, source.bytes[k]);
    size_t next = 0;
    for (const CodeRange& range : source.ranges) {
      for (uint32_t k = 0; k < range.bytes; ++k) {
        all.emplace_back(range.pc + k, source.relied_on[next++]);
      }
    }
    const bool agrees = std::all_of(all.begin(), all.end(), [&](const auto& one) {
      const auto it = expected.find(one.first);
      return it == expected.end() || it->second == one.second;
    });
    // What contradicts itself is nobody's code.
    std::map<uint64_t, uint8_t> own;
    const bool is_one = std::all_of(all.begin(), all.end(), [&](const auto& one) {
      return own.emplace(one.first, one.second).first->second == one.second;
    });
    if (!is_one) continue;
    ASSERT_EQ(source.AddTo(&seen), agrees) << i;
    if (agrees) expected.insert(all.begin(), all.end());
  }
  const Taken taken = Take(seen);
  std::map<uint64_t, uint8_t> found;
  size_t next = 0;
  for (const CodeRange& range : taken.ranges) {
    EXPECT_EQ(range.pc / kPageBytes, (range.pc + range.bytes - 1) / kPageBytes);
    for (uint32_t k = 0; k < range.bytes; ++k) found[range.pc + k] = taken.bytes[next++];
  }
  EXPECT_EQ(next, taken.bytes.size());
  EXPECT_EQ(found, expected);
  EXPECT_GT(found.size(), kPageBytes);
}

}  // namespace
}  // namespace hindsight
