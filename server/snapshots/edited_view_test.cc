#include "server/snapshots/edited_view.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "keyframes/inspect/fake_process_view.h"

namespace hindsight {
namespace {

constexpr uint64_t kStart = 0x10000;
constexpr uint64_t kPages = 3;

// Two known pages, and a third that is mapped and not known.
class EditedViewTest : public testing::Test {
 protected:
  EditedViewTest() {
    original_.registers[1] = {};
    original_.regions = {{.start = kStart, .end = kStart + kPageBytes},
                         {.start = kStart + kPageBytes, .end = kStart + kPages * kPageBytes}};
    for (uint64_t page = 0; page < 2; ++page) {
      original_.pages[kStart + page * kPageBytes] = std::vector<uint8_t>(kPageBytes, 1);
    }
  }
  static absl::Span<const uint8_t> Bytes(const std::string& text) {
    return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
  }
  // The bytes known from `address` on.
  std::string Read(uint64_t address, size_t size) {
    std::string text(size, '\0');
    const auto known = view_.ReadMemory(
        1, address, absl::MakeSpan(reinterpret_cast<uint8_t*>(text.data()), text.size()));
    text.resize(known.value_or(0));
    return text;
  }

  FakeProcessView original_;
  EditedView view_{&original_};
};

TEST_F(EditedViewTest, ShowsTheLastWriteOverTheOriginal) {
  // Against plain bytes: ranges of any size, over and beside each other.
  std::mt19937 random(7);
  std::string expected(2 * kPageBytes, '\1');
  for (int i = 0; i < 500; ++i) {
    const uint64_t at = random() % 300 + kPageBytes - 150;
    const std::string bytes(random() % 40 + 1, static_cast<char>(random()));
    ASSERT_TRUE(view_.WriteMemory(kStart + at, Bytes(bytes)).ok());
    expected.replace(at, bytes.size(), bytes);
    for (uint64_t page = 0; page < 2; ++page) {
      std::string all;
      while (all.size() < kPageBytes) {
        all += Read(kStart + page * kPageBytes + all.size(), kPageBytes - all.size());
      }
      ASSERT_EQ(all, expected.substr(page * kPageBytes, kPageBytes)) << i;
    }
    uint64_t end = 0;
    for (const auto& [address, edit] : view_.edits()) {
      ASSERT_GE(address, end);
      end = address + edit.size();
    }
  }
  view_.Clear();
  EXPECT_EQ(Read(kStart + kPageBytes - 5, 10).find_first_not_of('\1'), std::string::npos);
}

TEST_F(EditedViewTest, WhatIsWrittenWhereNothingWasKnownIsKnown) {
  const uint64_t page = kStart + 2 * kPageBytes;
  EXPECT_EQ(Read(page + 8, 4), "");
  EXPECT_TRUE(view_.WriteMemory(page + 8, Bytes("abcd")).ok());
  EXPECT_EQ(Read(page + 8, 4), "abcd");
  EXPECT_EQ(Read(page + 10, 100), "cd");
  EXPECT_EQ(Read(page, 100), "");
}

TEST_F(EditedViewTest, WhatIsNotMappedTakesNoWrite) {
  const uint64_t end = kStart + kPages * kPageBytes;
  EXPECT_TRUE(absl::IsNotFound(view_.WriteMemory(kStart - 1, Bytes("ab"))));
  EXPECT_TRUE(absl::IsNotFound(view_.WriteMemory(end - 1, Bytes("ab"))));
  EXPECT_TRUE(absl::IsNotFound(view_.WriteMemory(~uint64_t{0}, Bytes("ab"))));
  EXPECT_TRUE(view_.edits().empty());
  EXPECT_TRUE(view_.WriteMemory(kStart + kPageBytes - 1, Bytes("ab")).ok());
}

TEST_F(EditedViewTest, APageThatWasWrittenToIsTouched) {
  original_.untouched = {kStart, kStart + kPageBytes};
  EXPECT_TRUE(view_.WriteMemory(kStart + 100, Bytes("a")).ok());
  EXPECT_FALSE(view_.IsUntouched(1, kStart));
  EXPECT_FALSE(view_.IsUntouched(1, kStart + 4000));
  EXPECT_TRUE(view_.IsUntouched(1, kStart + kPageBytes));
}

}  // namespace
}  // namespace hindsight
