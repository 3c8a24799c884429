// Prefixes in all orders, misplaced ones, the longest instructions, random bytes: whatever is given
// to the Cpu, the hardware must compute the same.

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
#include "emulator/checks/odd_encodings.h"
#include "emulator/checks/prefix_bench.h"
#include "emulator/code/instruction.h"
#include "gtest/gtest.h"

namespace hindsight {
namespace {

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::strtoull(value, nullptr, 0) : otherwise;
}

std::string Hex(const std::vector<uint8_t>& bytes) {
  size_t length = Classify(bytes).length;
  if (length == 0) length = bytes.size();
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(bytes.data()), length));
}

class PrefixTest : public testing::Test {
 protected:
  void SetUp() override {
    const uint64_t seed = FromEnvironment("STRESS_SEED", 1);
    std::cout << "STRESS_SEED=" << seed << std::endl;
    auto bench = PrefixBench::Create(seed);
    ASSERT_TRUE(bench.ok()) << bench.status();
    bench_ = *std::move(bench);
  }

  void TearDown() override {
    for (const auto& [name, wrong] : wrong_) {
      ADD_FAILURE() << name << ", " << wrong.times << " times, first " << wrong.first;
    }
    std::cout << run_ << " executions, " << completed_ << " without a fault" << std::endl;
  }

  void Run(const std::vector<uint8_t>& bytes) {
    const auto result = bench_->Run(bytes);
    ASSERT_TRUE(result.ok()) << result.status();
    run_ += result->run;
    completed_ += result->completed;
    if (result->wrong.empty()) return;
    Wrong& wrong = wrong_[MnemonicName(Classify(bytes).mnemonic)];
    if (wrong.times++ < 3) absl::StrAppend(&wrong.first, Hex(bytes), ": ", result->wrong, "; ");
  }

  static uint64_t rounds() { return FromEnvironment("STRESS_ROUNDS", 1); }

  struct Wrong {
    uint64_t times = 0;
    std::string first;
  };
  std::unique_ptr<PrefixBench> bench_;
  std::map<std::string, Wrong> wrong_;
  uint64_t run_ = 0, completed_ = 0;
};

TEST_F(PrefixTest, PrefixesInAllOrdersAreReadAsTheHardwareReadsThem) {
  constexpr int kTimes = 24;
  for (const auto& prefixes : PrefixSequences(3)) {
    for (uint64_t i = 0; i < kTimes * rounds(); ++i) Run(WithPrefixes(prefixes, bench_->random()));
  }
  EXPECT_GT(completed_, run_ / 2);
}

TEST_F(PrefixTest, TheLongestInstructionsEndWhereTheHardwareEndsThem) {
  for (uint64_t i = 0; i < 20'000 * rounds(); ++i) Run(LongestForm(bench_->random()));
  EXPECT_GT(completed_, 500u);
}

TEST_F(PrefixTest, RandomBytesDoWhatTheyDoOnTheHardware) {
  for (uint64_t i = 0; i < 60'000 * rounds(); ++i) Run(RandomBytes(bench_->random()));
  EXPECT_GT(completed_, 1'000u);
}

// What Unicorn made of these was another instruction, or one of another length with more after it.
TEST_F(PrefixTest, WhatUnicornReadsDifferentlyIsComputedAllTheSame) {
  const std::vector<std::vector<uint8_t>> all = {
      {0x41, 0x66, 0x89, 0xc8},                          // mov ax,cx
      {0x48, 0x66, 0xb8, 0x34, 0x12},                    // mov ax,0x1234
      {0x48, 0x66, 0xb8, 0x34, 0x12, 0x0f, 0x20, 0xc3},  // ... before mov rbx,cr0
      {0x4c, 0xf3, 0x0f, 0x10, 0x07},                    // movss xmm0,[rdi]
      {0x48, 0x67, 0x64, 0x0f, 0x6f, 0x07},              // movq mm0,fs:[edi]
      {0x48, 0x2e, 0x89, 0x07},                          // mov [rdi],eax
      {0x41, 0x48, 0x66, 0x01, 0xc8},                    // add ax,cx
      {0x48, 0xf0, 0x01, 0x0f},                          // lock add [rdi],ecx
      {0x48, 0xf3, 0xa5},                                // rep movsd
      {0x48, 0x66, 0xff, 0xc0},                          // inc ax
      {0x66, 0xf2, 0x0f, 0x5e, 0xc1},                    // divsd, not divpd
      {0xf3, 0xf2, 0x0f, 0x58, 0xc1},                    // addsd, not addss
      {0xf2, 0xe0, 0x05},                                // loopne
      {0xf0, 0xf7, 0x1f},                                // lock neg [rdi]
  };
  for (const auto& bytes : all) {
    for (uint64_t i = 0; i < 20 * rounds(); ++i) Run(bytes);
  }
}

}  // namespace
}  // namespace hindsight
