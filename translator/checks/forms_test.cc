// Random instructions natively and translated: the same registers, flags, memory and faults.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/test_seed.h"
#include "translator/checks/twin_run.h"

namespace hindsight {
namespace {

class FormsTest : public testing::TestWithParam<FormKind> {};

TEST_P(FormsTest, SingleInstructionsAgree) {
  for (const TwinPlace& place : TwinPlaces()) {
    TwinRun twin(place, Flavour::kPlain, TestSeed());
    for (int i = 0; i < 5000; ++i) {
      const TwinResult result = twin.RunForm(GetParam());
      ASSERT_EQ(result.difference, "") << result.description;
    }
    EXPECT_GT(twin.completed(), 500u);
    EXPECT_GT(twin.faulted(), 50u);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, FormsTest,
                         testing::Values(FormKind::kLegacy, FormKind::kX87, FormKind::kVex,
                                         FormKind::kEvex));

}  // namespace
}  // namespace hindsight
