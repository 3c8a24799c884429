// Every legacy encoding that is given to Unicorn, with random operands, against the host.

#include "emulator/stress.h"

#include <cstdlib>
#include <iostream>
#include <map>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "emulator/instruction.h"
#include "gtest/gtest.h"

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
  uint64_t wrong = 0;
  std::string first;
};

TEST(StressTest, EmulatedInstructionsAgreeWithTheHost) {
  const uint64_t seed = FromEnvironment("STRESS_SEED", 1);
  const uint64_t rounds = FromEnvironment("STRESS_ROUNDS", 8);
  const char* only = std::getenv("STRESS_MNEMONIC");
  std::cout << "STRESS_SEED=" << seed << std::endl;
  auto bench = StressBench::Create(seed);
  ASSERT_TRUE(bench.ok()) << bench.status();
  std::map<std::string, Tally> tallies;
  uint64_t run = 0;
  for (const Encoding& encoding : AllEncodings((*bench)->random())) {
    const std::string name = MnemonicName(Classify(encoding.bytes).mnemonic);
    if (only != nullptr && name != only) continue;
    if (!(*bench)->Load(encoding)) continue;
    Tally& tally = tallies[name];
    for (uint64_t i = 0; i < rounds; ++i) {
      const StressResult result = (*bench)->Run();
      ++tally.run;
      ++run;
      if (result.verdict == Verdict::kAgrees) continue;
      if (tally.wrong++ != 0) continue;
      tally.first = absl::StrCat(Hex(encoding), result.verdict == Verdict::kOnlyHostFaults
                                                    ? ": only the host faults"
                                                : result.verdict == Verdict::kOnlyEmulatorFaults
                                                    ? ": only the emulator faults"
                                                    : absl::StrCat(": ", result.what));
    }
  }
  for (const auto& [name, tally] : tallies) {
    EXPECT_EQ(tally.wrong, 0u) << name << ", of " << tally.run << ", first " << tally.first;
  }
  std::cout << run << " executions of " << tallies.size() << " mnemonics" << std::endl;
}

}  // namespace
}  // namespace hindsight
