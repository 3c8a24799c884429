// Records real programs by translation while what is rare happens often: checks that fail, blocks
// of one instruction, translations that are thrown away. Programs do what they do otherwise.

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "recorder/record_fixture.h"

namespace hindsight {
namespace {

class TrialTest : public RecordTest, public testing::WithParamInterface<TranslationTrials> {
 protected:
  void Try(const std::vector<std::string>& words) {
    std::string quoted;
    for (const std::string& word : words) quoted += "'" + word + "' ";
    const std::string native = NativeOutput(quoted);
    options_.engine = EngineKind::kTranslate;
    options_.cpu = CpuModel::kPortable;
    options_.trials = GetParam();
    Record(words);
    EXPECT_EQ(output_, native) << errors_;
    EXPECT_EQ(result_.end_reason, "") << errors_;
    ExpectExact();
  }
};

TEST_P(TrialTest, Sort) { Try({"/usr/bin/sort", "/etc/passwd"}); }

TEST_P(TrialTest, Perl) { Try({"/usr/bin/perl", "-e", "print 1.5**$_, qq( ) for 1..50"}); }

TEST_P(TrialTest, GeneratedCode) { Try({Program("generated_code")}); }

TEST_P(TrialTest, OddInstructions) { Try({Program("odd_instructions")}); }

INSTANTIATE_TEST_SUITE_P(Of, TrialTest,
                         testing::Values(TranslationTrials{.block_instructions = 1},
                                         TranslationTrials{.flush_every = 5},
                                         TranslationTrials{.failing_checks = 20},
                                         TranslationTrials{.block_instructions = 3,
                                                           .flush_every = 30,
                                                           .failing_checks = 50}));

}  // namespace
}  // namespace hindsight
