// Every encoding that is given to Unicorn or assisted, with random operands, against the host.

#include "emulator/checks/stress.h"

#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "emulator/code/instruction.h"
#include "gtest/gtest.h"
#include "isa/host_features.h"

namespace hindsight {
namespace {

// STRESS_SEED and STRESS_ROUNDS explore beyond what a test has time for; STRESS_MNEMONIC narrows.
uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::strtoull(value, nullptr, 0) : otherwise;
}

std::string Hex(const Encoding& encoding) {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(encoding.bytes.data()), encoding.length));
}

struct Tally {
  uint64_t run = 0;
  uint64_t completed = 0;
  uint64_t wrong = 0;
  std::string first;
};

// Runs those of `encodings` that `load` takes.
void ExpectAgreement(StressBench* bench, const std::vector<Encoding>& encodings, uint64_t rounds,
                     bool (StressBench::*load)(const Encoding&) = &StressBench::Load,
                     StressResult (StressBench::*run_once)() = &StressBench::Run) {
  const char* only = std::getenv("STRESS_MNEMONIC");
  std::map<std::string, Tally> tallies;
  uint64_t run = 0;
  for (const Encoding& encoding : encodings) {
    const std::string name = MnemonicName(Classify(encoding.bytes).mnemonic);
    if (only != nullptr && name != only) continue;
    if (!(bench->*load)(encoding)) continue;
    Tally& tally = tallies[name];
    for (uint64_t i = 0; i < rounds; ++i) {
      const StressResult result = (bench->*run_once)();
      ++tally.run;
      ++run;
      tally.completed += result.verdict == Verdict::kAgrees && !result.faulted;
      if (result.verdict == Verdict::kAgrees) continue;
      if (tally.wrong++ != 0) continue;
      tally.first = absl::StrCat(Hex(encoding), result.verdict == Verdict::kOnlyHostFaults
                                                    ? ": only the host faults"
                                                : result.verdict == Verdict::kOnlyEmulatorFaults
                                                    ? ": only the emulator faults"
                                                    : absl::StrCat(": ", result.what));
    }
  }
  uint64_t completed = 0;
  for (const auto& [name, tally] : tallies) {
    EXPECT_EQ(tally.wrong, 0u) << name << ", of " << tally.run << ", first " << tally.first;
    completed += tally.completed;
    if (tally.completed == 0 && tally.run != 0)
      std::cout << name << " always faults here" << std::endl;
  }
  std::cout << run << " executions of " << tallies.size() << " mnemonics, " << completed
            << " without a fault" << std::endl;
}

class StressTest : public ::testing::Test {
 protected:
  StressTest() {
    const uint64_t seed = FromEnvironment("STRESS_SEED", 1);
    std::cout << "STRESS_SEED=" << seed << std::endl;
    auto bench = StressBench::Create(seed);
    EXPECT_TRUE(bench.ok()) << bench.status();
    if (bench.ok()) bench_ = *std::move(bench);
  }

  std::unique_ptr<StressBench> bench_;
};

TEST_F(StressTest, LegacyEncodingsAgreeWithTheHost) {
  ASSERT_NE(bench_, nullptr);
  ExpectAgreement(bench_.get(), AllEncodings(bench_->random()),
                  FromEnvironment("STRESS_ROUNDS", 8));
}

TEST_F(StressTest, PlainInstructionsAgreeWithUnicornInEverything) {
  ASSERT_NE(bench_, nullptr);
  ExpectAgreement(bench_.get(), AllEncodings(bench_->random()), FromEnvironment("STRESS_ROUNDS", 8),
                  &StressBench::LoadBridge, &StressBench::RunBridge);
}

TEST_F(StressTest, RunWithItsBlockOrSteppedIsTheSameInEverything) {
  ASSERT_NE(bench_, nullptr);
  ExpectAgreement(bench_.get(), AllEncodings(bench_->random()), FromEnvironment("STRESS_ROUNDS", 3),
                  &StressBench::Load, &StressBench::RunInBlock);
}

TEST_F(StressTest, MisalignedOperandsFaultWhereTheyDoOnTheHost) {
  ASSERT_NE(bench_, nullptr);
  bench_->Misalign();
  ExpectAgreement(bench_.get(), AllEncodings(bench_->random()),
                  FromEnvironment("STRESS_ROUNDS", 3));
}

TEST_F(StressTest, MisalignedOperandsFaultInTheirBlockAsWell) {
  ASSERT_NE(bench_, nullptr);
  bench_->Misalign();
  ExpectAgreement(bench_.get(), AllEncodings(bench_->random()), FromEnvironment("STRESS_ROUNDS", 3),
                  &StressBench::Load, &StressBench::RunInBlock);
}

TEST_F(StressTest, VectorEncodingsAgreeWithTheHost) {
  ASSERT_NE(bench_, nullptr);
  if (!HostFeatures::OfThisHost().Has(HostFeature::kAvx)) GTEST_SKIP() << "no AVX here";
  ExpectAgreement(bench_.get(), AllVectorEncodings(bench_->random()),
                  FromEnvironment("STRESS_ROUNDS", 4));
}

}  // namespace
}  // namespace hindsight
