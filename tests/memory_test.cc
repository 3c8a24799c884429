// Memory that changes under a program, and code that did not come from a file: recorded unchanged,
// never stale, and exact.

#include <gtest/gtest.h>

#include <string>
#include <vector>

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

}  // namespace
}  // namespace hindsight::e2e
