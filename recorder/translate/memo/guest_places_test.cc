#include "recorder/translate/memo/guest_places.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace hindsight {
namespace {

constexpr uint64_t kFirst = 0x401000, kSecond = 0x402ff0, kHost = 0x10000;

class GuestPlacesTest : public testing::Test {
 protected:
  // 64 bytes of code at `host`, then exits.
  void Add(uint64_t pc, uint64_t host) {
    TranslatedBlock block;
    block.code.assign(96, 0x90);
    block.exits_offset = 64;
    block.guest_bytes = 32;
    block.side = {{.host_offset = 4, .guest_offset = 0, .adjust = -3},
                  {.host_offset = 20, .guest_offset = 9, .adjust = -2}};
    translations_.push_back(MakeTranslation(
        pc, host, block, [](uint64_t) { return absl::Span<const uint8_t>(); }, &pool_));
    places_.Add(translations_.back().get());
  }

  StoragePool pool_;
  std::vector<std::unique_ptr<const Translation>> translations_;
  GuestPlaces places_;
};

TEST_F(GuestPlacesTest, AStateBelongsToTheLastEntryBefore) {
  Add(kFirst, kHost);
  EXPECT_FALSE(places_.At(kHost + 3).has_value());
  EXPECT_EQ(places_.At(kHost + 19)->guest_pc, kFirst);
  EXPECT_EQ(places_.At(kHost + 19)->adjust, -3);
  EXPECT_EQ(places_.At(kHost + 20)->guest_pc, kFirst + 9);
  EXPECT_EQ(places_.At(kHost + 63)->adjust, -2);
}

TEST_F(GuestPlacesTest, WhatIsNoBlocksCodeStandsForNoState) {
  EXPECT_FALSE(places_.At(kHost).has_value());
  Add(kFirst, kHost);
  Add(kSecond, kHost + 0x1000);
  EXPECT_FALSE(places_.At(kHost - 1).has_value());
  EXPECT_FALSE(places_.At(kHost + 64).has_value()) << "an exit";
  EXPECT_EQ(places_.At(kHost + 0x1014)->guest_pc, kSecond + 9);
  EXPECT_FALSE(places_.At(0).has_value());
  EXPECT_FALSE(places_.At(~uint64_t{0}).has_value());
}

}  // namespace
}  // namespace hindsight
