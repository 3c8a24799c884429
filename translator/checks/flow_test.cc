// Random programs natively, instruction by instruction, and translated: the same state after the
// same number of instructions.

#include <gtest/gtest.h>

#include "base/test_seed.h"
#include "translator/checks/twin_run.h"

namespace hindsight {
namespace {

void RunPrograms(Flavour flavour, TwinOptions options = {}) {
  for (const TwinPlace& place : TwinPlaces()) {
    TwinRun twin(place, flavour, TestSeed(), options);
    for (int i = 0; i < TestRounds(700); ++i) {
      const TwinResult result = twin.RunFlow(1 + (*twin.random())() % 100);
      ASSERT_EQ(result.difference, "") << "program " << i << "\n" << result.description;
    }
    EXPECT_GT(twin.steps(), 8000u);
    EXPECT_GT(twin.completed(), 80u);
    EXPECT_GT(twin.faulted(), 40u);
    if (flavour == Flavour::kRecord && !options.trust_view) {
      EXPECT_GT(twin.locked(), 40u);
      if (!options.exclusive) {
        EXPECT_GT(twin.translated().locked_left(), 2u);
      }
      if (options.order > MemoryModel::kFence) {
        EXPECT_GT(twin.ordered(), 400u);
      }
    }
  }
}

TEST(FlowTest, PlainProgramsAgreeInStateAndCount) { RunPrograms(Flavour::kPlain); }

TEST(FlowTest, RecordedProgramsAgreeInStateAndCount) { RunPrograms(Flavour::kRecord); }

TEST(FlowTest, StoresAreOrdered) { RunPrograms(Flavour::kRecord, {.order = MemoryModel::kAcqRel}); }

TEST(FlowTest, LoadsAreOrdered) { RunPrograms(Flavour::kRecord, {.order = MemoryModel::kLoad}); }

TEST(FlowTest, ProgramsWhoseMemoryIsExclusiveAgree) {
  RunPrograms(Flavour::kRecord, {.exclusive = true});
}

TEST(FlowTest, ProgramsWhoseLoadsAreWatchedAgree) {
  RunPrograms(Flavour::kRecord, {.exclusive = true, .watches_loads = true});
}

TEST(FlowTest, ExclusiveStoresAreOrdered) {
  RunPrograms(Flavour::kRecord, {.exclusive = true, .order = MemoryModel::kAcqRel});
}

TEST(FlowTest, WhatOthersChangeAllTheTimeIsReadFromTheView) {
  RunPrograms(Flavour::kRecord, {.trust_view = true});
}

}  // namespace
}  // namespace hindsight
