// Memory that changes under a program, and code that did not come from a file: recorded unchanged,
// never stale, and exact.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
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

TEST(GeneratedCodeTest, ToyJit) { ExpectAlwaysRecordsUnchanged({Program("toy_jit")}); }

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

TEST(VectorsTest, Bits) { ExpectVectorsUnchanged("bit_kernels", {"bmi1", "bmi2", "movbe", "adx"}); }

TEST(VectorsTest, Cryptography) {
  ExpectVectorsUnchanged("crypto_kernels", {"aes", "sha_ni", "pclmulqdq"});
}

// The recorder gives back what the program gives back: this one never has more than 64 KiB mapped,
// of some hundred megabytes in all.
TEST(RecorderTest, TakesMemoryInProportionToTheProgram) {
  const TempDir directory;
  const ChildResult result = RunProcess(
      {"/usr/bin/python3", "-c",
       "import resource, subprocess, sys\n"
       "subprocess.run(sys.argv[1:], check=True)\n"
       "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n",
       Hindsight(), "record", "-o", directory.File("trace"), "--", Program("fresh_maps")});
  ASSERT_EQ(result.Ending(), "exit 0") << result.err;
  const std::vector<std::string> lines = absl::StrSplit(result.out, '\n');
  ASSERT_GE(lines.size(), 2u) << result.out;
  EXPECT_EQ(lines[0], "1800 mapped, 1500 faults");
  int kilobytes = 0;
  ASSERT_TRUE(absl::SimpleAtoi(lines[1], &kilobytes)) << lines[1];
  EXPECT_LT(kilobytes, 100'000);
  ExpectExact(directory.File("trace"));
}

}  // namespace
}  // namespace hindsight::e2e
