// Random programs translated, for a recording, and what a replay makes of them: the emulator comes
// to the same states, with no more than is told on the way. Also with blocks of one instruction,
// with checks that fail whatever is there, and with translations that are forgotten all the time.

#include <gtest/gtest.h>

#include <string>

#include "base/test_seed.h"
#include "translator/checks/twin_run.h"

namespace hindsight {
namespace {

struct Trial {
  const char* name;
  TwinOptions options;
};

constexpr Trial kTrials[] = {
    {"AsItIs", {.replayed = true}},
    {"Exclusive", {.exclusive = true, .replayed = true}},
    {"Watched", {.exclusive = true, .watches_loads = true, .replayed = true}},
    {"WatchedInVain",
     {.exclusive = true,
      .watches_loads = true,
      .replayed = true,
      .max_instructions = 2,
      .failing_checks = 2,
      .flush_every = 3}},
    {"BlocksOfOne", {.replayed = true, .max_instructions = 1}},
    {"EndedByStores", {.replayed = true, .by_any_store = true}},
    {"FailingChecks", {.replayed = true, .failing_checks = 3}},
    {"Flushed", {.replayed = true, .max_instructions = 3, .flush_every = 5}},
    {"All",
     {.trust_view = true,
      .replayed = true,
      .max_instructions = 2,
      .failing_checks = 2,
      .flush_every = 3}},
};

class ReplayTest : public testing::TestWithParam<Trial> {};

TEST_P(ReplayTest, ProgramsAgree) {
  TwinRun twin(TwinPlaces()[TestSeed() % 3], Flavour::kRecord, TestSeed(), GetParam().options);
  for (int i = 0; i < 1500; ++i) {
    const uint64_t limit = 1 + (*twin.random())() % 100;
    const TwinResult result = i % 2 == 0 ? twin.RunReplayed(limit) : twin.RunFlow(limit);
    ASSERT_EQ(result.difference, "") << "program " << i << "\n" << result.description;
  }
  EXPECT_GT(twin.emulated().instructions(), 10'000u);
  EXPECT_LT(twin.emulated().untold(), 15u);
  EXPECT_GT(twin.completed(), 100u);
  EXPECT_GT(twin.faulted(), 100u);
}

TEST_P(ReplayTest, SingleInstructionsAgree) {
  TwinRun twin(TwinPlaces()[(TestSeed() + 1) % 3], Flavour::kRecord, TestSeed(),
               GetParam().options);
  for (int i = 0; i < 4000; ++i) {
    const FormKind kind = i % 4 == 0   ? FormKind::kX87
                          : i % 4 == 1 ? FormKind::kLocked
                                       : FormKind::kLegacy;
    const TwinResult result = twin.RunForm(kind);
    ASSERT_EQ(result.difference, "") << "form " << i << "\n" << result.description;
  }
  EXPECT_GT(twin.emulated().instructions(), 1000u);
}

INSTANTIATE_TEST_SUITE_P(All, ReplayTest, testing::ValuesIn(kTrials),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace hindsight
