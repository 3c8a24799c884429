#include <cstdint>
#include <set>

#include "gtest/gtest.h"
#include "recorder/session/engine_kind.h"
#include "recorder/session/seed.h"

namespace hindsight {
namespace {

TEST(EngineKindTest, NamesAreParsedBack) {
  EXPECT_EQ(EngineNamed(NameOf(EngineKind::kEmulate)), EngineKind::kEmulate);
  EXPECT_EQ(EngineNamed("Emulate"), std::nullopt);
  EXPECT_EQ(EngineNamed(""), std::nullopt);
}

TEST(SeedTest, NewSeedsDiffer) {
  std::set<uint64_t> seeds;
  for (int i = 0; i < 50; ++i) seeds.insert(NewSeed());
  EXPECT_GT(seeds.size(), 45u);
}

}  // namespace
}  // namespace hindsight
