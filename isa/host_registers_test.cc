#include "isa/host_registers.h"

#include <elf.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <vector>

#include "base/check.h"
#include "gtest/gtest.h"

namespace hindsight {
namespace {

// A child of ours, stopped, whose vector registers can be set and read.
class StoppedChild {
 public:
  StoppedChild() {
    pid_ = fork();
    if (pid_ == 0) {
      ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
      for (;;) raise(SIGSTOP);
    }
    CHECK(waitpid(pid_, nullptr, 0) == pid_);
  }
  ~StoppedChild() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  std::vector<uint8_t> Image() const {
    std::vector<uint8_t> image(XstateBytes() + 64);
    iovec vec = {image.data(), image.size()};
    CHECK(ptrace(PTRACE_GETREGSET, pid_, NT_X86_XSTATE, &vec) == 0);
    image.resize(vec.iov_len);
    return image;
  }
  bool SetImage(std::vector<uint8_t> image) {
    iovec vec = {image.data(), image.size()};
    return ptrace(PTRACE_SETREGSET, pid_, NT_X86_XSTATE, &vec) == 0;
  }
  // Through the kernel's context switch and back.
  void RunOnce() {
    CHECK(ptrace(PTRACE_SINGLESTEP, pid_, nullptr, nullptr) == 0);
    CHECK(waitpid(pid_, nullptr, 0) == pid_);
  }

 private:
  pid_t pid_ = 0;
};

RegisterFile Random(unsigned seed) {
  std::mt19937_64 random(seed);
  RegisterFile registers;
  auto fill = [&](uint64_t* words, size_t bytes) {
    for (size_t i = 0; i < bytes / sizeof(uint64_t); ++i) words[i] = random();
  };
  fill(registers.xmm[0], sizeof(registers.xmm));
  fill(registers.ymm_high[0], sizeof(registers.ymm_high));
  if (__builtin_cpu_supports("avx512f") != 0) {
    fill(registers.zmm_high[0], sizeof(registers.zmm_high));
    fill(registers.zmm16[0], sizeof(registers.zmm16));
    fill(registers.k, sizeof(registers.k));
    // Without AVX512BW an opmask register has 16 bits.
    if (__builtin_cpu_supports("avx512bw") == 0) {
      for (uint64_t& k : registers.k) k &= 0xffff;
    }
  }
  for (auto& st : registers.st) st[0] = random(), st[1] = random() & 0xffff;
  registers.mxcsr = 0x3fa0;
  registers.fcw = 0x27f;
  registers.fsw = 0x3800;
  registers.ftw = 0x81;
  return registers;
}

TEST(XstateTest, WhatIsWrittenToAProcessIsReadFromIt) {
  if (__builtin_cpu_supports("avx") == 0) GTEST_SKIP() << "no AVX here";
  StoppedChild child;
  for (unsigned seed = 0; seed < 8; ++seed) {
    const RegisterFile expected = Random(seed);
    std::vector<uint8_t> image = child.Image();
    RegistersToXstate(expected, absl::MakeSpan(image));
    ASSERT_TRUE(child.SetImage(image));
    child.RunOnce();
    RegisterFile actual;
    ASSERT_TRUE(XstateToRegisters(child.Image(), &actual));
    EXPECT_EQ(actual, expected) << "seed " << seed;
  }
}

TEST(XstateTest, ZeroExtendedRegistersReplaceOthers) {
  if (__builtin_cpu_supports("avx") == 0) GTEST_SKIP() << "no AVX here";
  StoppedChild child;
  std::vector<uint8_t> image = child.Image();
  RegistersToXstate(Random(1), absl::MakeSpan(image));
  ASSERT_TRUE(child.SetImage(image));
  RegisterFile plain;
  plain.mxcsr = 0x1f80;
  plain.fcw = 0x37f;
  image = child.Image();
  RegistersToXstate(plain, absl::MakeSpan(image));
  ASSERT_TRUE(child.SetImage(image));
  child.RunOnce();
  RegisterFile actual = Random(2);
  ASSERT_TRUE(XstateToRegisters(child.Image(), &actual));
  EXPECT_EQ(actual, plain);
}

TEST(XstateTest, AnAbsentComponentIsInItsInitialState) {
  std::vector<uint8_t> image(XstateBytes() + 576, 0xee);
  RegistersToXstate(Random(1), absl::MakeSpan(image));
  std::memset(image.data() + 512, 0, 64);
  RegisterFile actual = Random(2), expected;
  expected.mxcsr = 0x3fa0;  // not part of any component
  expected.fcw = 0x37f;
  ASSERT_TRUE(XstateToRegisters(image, &actual));
  EXPECT_EQ(actual, expected);
}

TEST(XstateTest, AnImageThatEndsAfterItsHeaderHasNoExtendedRegisters) {
  std::vector<uint8_t> image(576);
  RegisterFile expected = Random(1), actual = Random(2);
  RegistersToXstate(expected, absl::MakeSpan(image));
  ASSERT_TRUE(XstateToRegisters(image, &actual));
  EXPECT_FALSE(HasExtended(actual));
  EXPECT_EQ(std::memcmp(actual.xmm, expected.xmm, sizeof(actual.xmm)), 0);
}

TEST(XstateTest, AnImageWithoutAHeaderIsRejected) {
  RegisterFile registers = Random(1);
  const RegisterFile before = registers;
  EXPECT_FALSE(XstateToRegisters(std::vector<uint8_t>(512), &registers));
  EXPECT_EQ(registers, before);
}

}  // namespace
}  // namespace hindsight
