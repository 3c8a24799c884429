#include "emulator/calls/pure_call.h"

#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "tracefmt/records.h"

namespace hindsight {
namespace {

constexpr uint64_t kCode = 0x400000, kData = 0x500000;

class PureCallTest : public ::testing::Test {
 protected:
  absl::StatusOr<uint64_t> Call(std::vector<uint8_t> code) {
    const auto pages = [&](uint64_t address, absl::Span<uint8_t> page) {
      if (address == kCode) std::memcpy(page.data(), code.data(), code.size());
      if (address == kData) std::memcpy(page.data(), &data_, sizeof(data_));
      return address == kCode || address == kData;
    };
    return CallPure(pages, kCode);
  }
  bool Fails(std::vector<uint8_t> code) {
    return absl::IsFailedPrecondition(Call(std::move(code)).status());
  }

  uint64_t data_ = 0x1122334455667788;
};

TEST_F(PureCallTest, ReadsMemoryAndReturns) {
  // mov rax, [0x500000]; ret
  EXPECT_EQ(*Call({0x48, 0x8b, 0x04, 0x25, 0, 0, 0x50, 0, 0xc3}), data_);
}

TEST_F(PureCallTest, HasAStackAndThreadLocalStorage) {
  // mov rax, fs:[0x28]; push rax; inc qword [rsp]; pop rax; ret
  EXPECT_EQ(*Call({0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0, 0x50, 0x48, 0xff, 0x04, 0x24, 0x58,
                   0xc3}),
            1u);
}

TEST_F(PureCallTest, WritesAreThrownAway) {
  // inc qword [0x500000]; mov rax, [0x500000]; ret
  const std::vector<uint8_t> code = {0x48, 0xff, 0x04, 0x25, 0, 0,    0x50, 0,   0x48,
                                     0x8b, 0x04, 0x25, 0,    0, 0x50, 0,    0xc3};
  EXPECT_EQ(*Call(code), data_ + 1);
  EXPECT_EQ(*Call(code), data_ + 1);
}

TEST_F(PureCallTest, MayAskForTheProcessorsFeatures) {
  // mov eax, 1; cpuid; mov eax, edx; ret
  const auto features = Call({0xb8, 1, 0, 0, 0, 0x0f, 0xa2, 0x89, 0xd0, 0xc3});
  ASSERT_TRUE(features.ok()) << features.status();
  EXPECT_NE(*features & uint64_t{1} << 26, 0u) << "no SSE2";
}

TEST_F(PureCallTest, WhatDoesNotOnlyComputeFails) {
  EXPECT_TRUE(Fails({0x0f, 0x05, 0xc3}));                             // syscall
  EXPECT_TRUE(Fails({0x48, 0x8b, 0x04, 0x25, 0, 0, 0x60, 0, 0xc3}));  // unmapped
  EXPECT_TRUE(Fails({0xeb, 0xfe}));                                   // for ever
  EXPECT_TRUE(Fails({0xf4}));                                         // hlt
  EXPECT_TRUE(absl::IsFailedPrecondition(
      CallPure([](uint64_t, absl::Span<uint8_t>) { return false; }, 0x1234).status()));
}

}  // namespace
}  // namespace hindsight
