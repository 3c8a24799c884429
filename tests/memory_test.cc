// Memory that changes under a program, and code that does not come from a file: recorded unchanged,
// never stale, and exact.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/harness/files.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

TEST(SharedMemoryTest, WithARecordedProcessThatKeepsWriting) {
  ExpectAlwaysRecordsUnchanged({Program("shared_writer")});
}

TEST(SharedMemoryTest, WithAnotherProcessThatKeepsWriting) {
  ExpectAlwaysRecordsUnchanged({Program("shared_writer")}, {}, {"--children=none"});
}

TEST(SharedMemoryTest, CodeWrittenAtOneAddressAndExecutedAtAnother) {
  ExpectAlwaysRecordsUnchanged({Program("jit_two_mappings")});
}

TEST(SharedMemoryTest, AtTwoAddresses) { ExpectAlwaysRecordsUnchanged({Program("two_mappings")}); }

TEST(SharedMemoryTest, WithTheKernel) { ExpectAlwaysRecordsUnchanged({Program("rings")}); }

TEST(SharedMemoryTest, EventsFromThreadsTimersAndChildren) {
  ExpectAlwaysRecordsUnchanged({Program("event_loop")});
}

// Its times may say that it is what it was when the recorder has read it.
TEST(SharedMemoryTest, OfAFileThatIsStoredTo) {
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{}, {"--light-keyframe-interval=200000"}}) {
    ExpectRecordsUnchanged({Program("file_stores")}, {}, flags);
    std::vector<std::string> alone = flags;
    alone.emplace_back("--children=none");
    ExpectRecordsUnchanged({Program("file_stores")}, {}, alone);
  }
}

TEST(ExclusiveMemoryTest, ShowsWhatEachCallHasStored) {
  ExpectAlwaysRecordsUnchanged({Program("exclusive_memory")});
  ExpectAlwaysRecordsUnchanged({Program("exclusive_memory")}, {},
                               {"--light-keyframe-interval=50000"});
}

TEST(ExclusiveMemoryTest, IsAsItIsNativelyAfterAnyCalls) {
  // Where every access is emulated this takes seven times as long.
  const int seeds = Engine() == TestedEngine::kTranslate ? 6 : 2 * Recordings();
  for (int seed = 1; seed <= seeds && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    std::vector<std::string> flags;
    if (seed % 2 == 0) flags.emplace_back("--light-keyframe-interval=30000");
    ExpectRecordsUnchanged({Program("memory_walk"), absl::StrCat(seed), "200"}, {}, flags);
  }
}

TEST(ExclusiveMemoryTest, ShowsWhatIsWrittenToAFileAtRest) {
  ExpectRecordsUnchanged({Program("exclusive_memory"), "rest"});
}

TEST(ExclusiveMemoryTest, IsAsItWasWhenItMayBeAccessedAgain) {
  for (const char* interval : {"1000000000", "1000000", "50000"}) {
    SCOPED_TRACE(interval);
    ExpectRecordsUnchanged({Program("hidden_memory"), "7", "400"}, {},
                           {absl::StrCat("--light-keyframe-interval=", interval)});
  }
}

// Where the processor has protection keys it cannot be read meanwhile, by the recorder neither.
TEST(ExclusiveMemoryTest, IsAsItWasWhenItWasOnlyToBeExecuted) {
  for (const char* interval : {"1000000000", "50000", "5000"}) {
    SCOPED_TRACE(interval);
    ExpectRecordsUnchanged({Program("execute_only")}, {},
                           {absl::StrCat("--light-keyframe-interval=", interval)});
  }
}

TEST(ProtectionKeysTest, AreNotThere) {
  if (Engine() != TestedEngine::kTranslate) GTEST_SKIP() << "the kernel gives them out there";
  const Recorded recorded({Program("execute_only"), "keys"});
  EXPECT_EQ(recorded.run().out, "none left\n");
  ExpectExact(recorded.trace());
}

// More pages, one mapping after the other, than a segment may have.
TEST(ExclusiveMemoryTest, ThatIsDroppedManyTimes) {
  ExpectRecordsUnchanged({Program("hidden_memory"), "much"});
}

TEST(GeneratedCodeTest, ToyJit) { ExpectAlwaysRecordsUnchanged({Program("toy_jit")}); }

// What is there now may read flags that what was there before did not.
TEST(GeneratedCodeTest, ThatBeginsToReadFlags) {
  ExpectAlwaysRecordsUnchanged({Program("changes_flag_use")});
  ExpectAlwaysRecordsUnchanged({Program("changes_flag_use"), "threads"});
}

// What a child has of its maker's code is as it was when it was made.
TEST(GeneratedCodeTest, OfAChildOfForkAndItsMaker) {
  ExpectAlwaysRecordsUnchanged({Program("forks_and_changes_code")});
}

// It takes over what that was translated to, as far as it is the same.
TEST(GeneratedCodeTest, ThatIsOtherCodeInAChildOfForkThanInItsMaker) {
  ExpectAlwaysRecordsUnchanged({Program("forks_with_other_code")});
}

// Blocks of code that has not changed for a while do not check any more whether it has.
TEST(GeneratedCodeTest, ThatChangesAfterAWhile) {
  ExpectAlwaysRecordsUnchanged({Program("changes_settled_code")});
  ExpectAlwaysRecordsUnchanged({Program("changes_settled_code"), "threads"});
}

TEST(GeneratedCodeTest, ToyJitWithManyKeyframes) {
  ExpectRecordsUnchanged({Program("toy_jit")}, {},
                         {"--light-keyframe-interval=10000", "--full-keyframe-interval=50000"});
}

TEST(GeneratedCodeTest, TrampolinesOnTheStack) {
  ExpectRecordsUnchanged({Program("stack_trampoline")});
}

TEST(GeneratedCodeTest, LibrariesAtTheSameAddress) {
  ExpectRecordsUnchanged({Program("dlopen_reuse")});
}

// Programs that use instructions because they know the processor, whatever cpuid says.

void ExpectVectorsUnchanged(const char* program, const std::vector<std::string>& features) {
  if (!HostHas(features)) GTEST_SKIP() << "this host's processors lack them";
  ExpectRecordsUnchanged({Program(program)});
  ExpectRecordsUnchanged({Program(program)}, {},
                         {"--light-keyframe-interval=5000", "--quantum=2000"});
}

TEST(VectorsTest, Avx2) { ExpectVectorsUnchanged("avx2_kernels", {"avx2", "fma", "f16c"}); }

TEST(VectorsTest, Avx512) {
  ExpectVectorsUnchanged("avx512_kernels", {"avx512f", "avx512bw", "avx512dq", "avx512vl"});
}

TEST(VectorsTest, ThroughSignalsThreadsAndXsave) {
  const std::vector<std::string> features = {"avx512f", "avx512bw", "avx512dq", "xsavec"};
  if (!HostHas(features)) GTEST_SKIP() << "this host's processors lack them";
  for (const char* const cpu : {"--cpu=portable", "--cpu=host"}) {
    ExpectAlwaysRecordsUnchanged({Program("extended_state")}, {}, {cpu});
    ExpectAlwaysRecordsUnchanged({Program("extended_state")}, {},
                                 {cpu, "--light-keyframe-interval=50000"});
  }
  if (Engine() != TestedEngine::kTranslate) return;
  ExpectRecordsUnchanged({Program("extended_state"), "pointers"});
  ExpectAlwaysRecordsUnchanged({Program("extended_state")}, {},
                               {"--full-keyframe-interval=3000000"});
}

TEST(VectorsTest, WhatAReplayNeedsIsNamed) {
  if (!HostHas({"avx2", "fma", "f16c"})) GTEST_SKIP() << "this host's processors lack them";
  const TempDir cache;
  std::vector<std::string> flags;
  if (Engine() == TestedEngine::kTranslate) {
    flags.push_back("--translation-cache=" + cache.File("here"));
  }
  // The second time, from what the first has translated.
  for (int i = 0; i < 2; ++i) {
    const Recorded recorded({Program("avx2_kernels")}, {}, flags);
    const std::string info = RunHindsight({"info", recorded.trace(), "--json"}).out;
    for (const char* const feature : {"\"avx2\"", "\"fma\"", "\"f16c\""}) {
      EXPECT_NE(info.find(feature), std::string::npos) << feature << info;
    }
  }
}

TEST(VectorsTest, Bits) { ExpectVectorsUnchanged("bit_kernels", {"bmi1", "bmi2", "movbe", "adx"}); }

TEST(VectorsTest, Cryptography) {
  ExpectVectorsUnchanged("crypto_kernels", {"aes", "sha_ni", "pclmulqdq"});
}

// Records `program` and proves the trace. The most memory that the recorder took, in kilobytes;
// `out`: what the program printed, its first line.
int KilobytesToRecord(const std::string& program, std::string* out) {
  const TempDir directory;
  std::vector<std::string> argv = {
      "/usr/bin/python3", "-c",
      "import resource, subprocess, sys\n"
      "subprocess.run(sys.argv[1:], check=True)\n"
      "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"};
  for (const std::string& word : RecordCommand()) argv.push_back(word);
  argv.insert(argv.end(), {"-o", directory.File("trace"), "--", program});
  const ChildResult result = RunProcess(argv);
  EXPECT_EQ(result.Ending(), "exit 0") << result.err;
  const std::vector<std::string> lines = absl::StrSplit(result.out, '\n');
  int kilobytes = 0;
  EXPECT_TRUE(lines.size() >= 2 && absl::SimpleAtoi(lines[1], &kilobytes)) << result.out;
  *out = lines[0];
  ExpectExact(directory.File("trace"));
  return kilobytes;
}

// The recorder gives back what the program gives back: this one never has more than 64 KiB mapped,
// of some hundred megabytes in all.
TEST(RecorderTest, TakesMemoryInProportionToTheProgram) {
  SKIP_IF_TRANSLATED("a program that insists on addresses that are the recorder's");
  std::string out;
  EXPECT_LT(KilobytesToRecord(Program("fresh_maps"), &out), 100'000);
  EXPECT_EQ(out, "1800 mapped, 1500 faults");
}

// 12 MB of it, over 1.5 TiB of addresses. (The test's limit of time is a check as well.)
TEST(RecorderTest, MappingsThatLieFarApartCostLittle) {
  SKIP_IF_TRANSLATED("a program that insists on addresses that are the recorder's");
  std::string out;
  EXPECT_LT(KilobytesToRecord(Program("far_maps"), &out), 120'000);
  EXPECT_EQ(out, RunProcess({Program("far_maps")}).out.substr(0, 8));
}

}  // namespace
}  // namespace hindsight::e2e
