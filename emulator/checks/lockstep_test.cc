// Real programs, instruction by instruction, in the Cpu and on the host.

#include "emulator/checks/lockstep.h"

#include <sys/wait.h>
#include <unistd.h>

#include <climits>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "isa/cpuid.h"
#include "isa/host_features.h"

namespace hindsight {
namespace {

// Compared instructions of all the tests, which run in one process.
uint64_t compared_in_all = 0;

// Programs are built beside this test's own directory.
std::string Program(const std::string& name) {
  char path[PATH_MAX] = {};
  if (readlink("/proc/self/exe", path, sizeof(path) - 1) < 0) return name;
  const std::string self = path;
  return self.substr(0, self.rfind('/')) + "/../../tests/lockstep/" + name;
}

// Runs `argv`, at most `limit` instructions of it.
LockstepReport RunInStep(const std::vector<std::string>& argv, uint64_t limit = ~uint64_t{0},
                         CpuModel model = CpuModel::kPortable) {
  SteppedProcess::StayOnOneProcessor();
  auto process = SteppedProcess::Launch(argv);
  EXPECT_TRUE(process.ok()) << process.status();
  if (!process.ok()) return {};
  auto lockstep = Lockstep::Create(process->get(), model);
  EXPECT_TRUE(lockstep.ok()) << lockstep.status();
  if (!lockstep.ok()) return {};
  const LockstepReport report = (*lockstep)->Run(limit);
  compared_in_all += report.compared;
  std::cout << argv[0] << ": " << report.instructions << " instructions, " << report.compared
            << " compared" << std::endl;
  return report;
}

void ExpectSame(const LockstepReport& report) {
  for (const auto& [name, finding] : report.differences) {
    ADD_FAILURE() << name << " differs " << finding.times << " times, first " << finding.first;
  }
  EXPECT_EQ(report.refused, 0u);
}

void ExpectSameToTheEnd(const LockstepReport& report) {
  ExpectSame(report);
  EXPECT_TRUE(report.exited);
  EXPECT_TRUE(WIFEXITED(report.wait_status) && WEXITSTATUS(report.wait_status) == 0);
}

TEST(LockstepTest, DynamicStartUp) { ExpectSameToTheEnd(RunInStep({"/bin/true"})); }

TEST(LockstepTest, Integers) { ExpectSameToTheEnd(RunInStep({Program("integers")})); }

TEST(LockstepTest, Atomics) { ExpectSameToTheEnd(RunInStep({Program("atomics")})); }

TEST(LockstepTest, StringFunctions) {
  ExpectSameToTheEnd(RunInStep({Program("string_functions")}));
}

LockstepReport RunWithHostFeatures(const std::vector<std::string>& argv) {
  return RunInStep(argv, ~uint64_t{0}, CpuModel::kHost);
}

// The same with the code that libc and libm choose on this machine.
TEST(LockstepTest, HostsStringFunctions) {
  ExpectSameToTheEnd(RunWithHostFeatures({Program("string_functions")}));
}

TEST(LockstepTest, HostsDoubles) { ExpectSameToTheEnd(RunWithHostFeatures({Program("doubles")})); }

TEST(LockstepTest, Sorting) { ExpectSameToTheEnd(RunInStep({Program("sorting")})); }

TEST(LockstepTest, Doubles) { ExpectSameToTheEnd(RunInStep({Program("doubles")})); }

TEST(LockstepTest, LongDoubles) { ExpectSameToTheEnd(RunInStep({Program("long_doubles")})); }

TEST(LockstepTest, Vectors) { ExpectSameToTheEnd(RunInStep({Program("vectors")})); }

TEST(LockstepTest, Avx2) {
  const HostFeatures needed = {HostFeature::kAvx2, HostFeature::kFma, HostFeature::kBmi2};
  if (!HostFeatures::OfThisHost().Has(needed)) GTEST_SKIP() << "no AVX2 here";
  ExpectSameToTheEnd(RunInStep({Program("avx2")}));
}

TEST(LockstepTest, Avx512) {
  const HostFeatures needed = {HostFeature::kAvx512Bw, HostFeature::kAvx512Dq,
                               HostFeature::kAvx512Vl};
  if (!HostFeatures::OfThisHost().Has(needed)) GTEST_SKIP() << "no AVX-512 here";
  ExpectSameToTheEnd(RunInStep({Program("avx512")}));
}

// Whatever a big program does; most of it is reached by the tool (docs/emulation.md).
TEST(LockstepTest, Perl) {
  ExpectSame(RunInStep({"perl", "-e", "print join ' ', sort map { $_ * 1.5 } 1..9"}, 60'000));
}

TEST(LockstepTest, ZMoreThanAMillionInstructions) {
  if (::testing::UnitTest::GetInstance()->test_to_run_count() < 10) GTEST_SKIP();
  EXPECT_GT(compared_in_all, 1'000'000u);
}

}  // namespace
}  // namespace hindsight
