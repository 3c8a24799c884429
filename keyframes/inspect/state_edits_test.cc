#include "keyframes/inspect/state_edits.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace hindsight {
namespace {

constexpr char kHeader[] = "snapshot 000102030405060708090a0b0c0d0e0f 17\n";

TEST(StateEditsTest, WhatIsWrittenIsReadAgain) {
  StateEdits edits = {.snapshot = 17};
  for (char i = 0; i < 16; ++i) edits.uuid.push_back(i);
  edits.memory = {{0x7ffe12345678, std::string("\x2a\0\xff", 3)}, {~uint64_t{0}, "x"}};
  edits.registers = {{4711, 0, 0x2a}, {4711, kRegisterWords - 1, ~uint64_t{0}}};
  const std::string text = EditsFile(edits);
  EXPECT_EQ(text, absl::StrCat(kHeader,
                               "memory 0x7ffe12345678 2a00ff\n"
                               "memory 0xffffffffffffffff 78\n"
                               "register 4711 rax 0x2a\n"
                               "register 4711 k7 0xffffffffffffffff\n"));
  const absl::StatusOr<StateEdits> read = ParseEdits(text);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->uuid, edits.uuid);
  EXPECT_EQ(read->snapshot, 17u);
  EXPECT_EQ(read->memory, edits.memory);
  EXPECT_EQ(read->registers, edits.registers);
}

TEST(StateEditsTest, EveryWordHasANameOfItsOwn) {
  RegisterFile before, now;
  std::vector<uint64_t> words(kRegisterWords);
  for (size_t i = 0; i < words.size(); ++i) words[i] = i + 1;
  ASSERT_TRUE(FromWords(words, &now));
  StateEdits edits = {.uuid = std::string(16, 'u')};
  edits.registers = RegisterDifferences(1, before, now);
  const absl::StatusOr<StateEdits> read = ParseEdits(EditsFile(edits));
  ASSERT_TRUE(read.ok()) << read.status();
  RegisterFile applied;
  for (const RegisterEdit& edit : read->registers) Apply(edit, &applied);
  EXPECT_EQ(applied, now);
}

TEST(StateEditsTest, WhatIsNotUnderstoodIsRejected) {
  for (const char* bad : {"", "memory 0x1 00\n", "snapshot 00 1\n",
                          "snapshot 000102030405060708090a0b0c0d0e0f x\n"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseEdits(bad).status())) << bad;
  }
  for (const char* bad :
       {"memory 10 00", "memory 0x10 0", "memory 0x10 zz", "memory 0x10", "memory 0x10 00 00",
        "memory 0xffffffffffffffff 0000", "register 1 nix 0x0", "register 1 rax 0",
        "register rax 0x0", "register x rax 0x0", "snapshot 000102030405060708090a0b0c0d0e0f 17",
        "else"}) {
    const absl::Status status = ParseEdits(absl::StrCat(kHeader, "# a comment\n\n", bad)).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << bad;
    EXPECT_NE(status.message().find("line 4:"), absl::string_view::npos) << status;
  }
  EXPECT_TRUE(ParseEdits(kHeader)->empty());
}

}  // namespace
}  // namespace hindsight
