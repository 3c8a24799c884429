#include "cli/record_text.h"

#include <array>

#include "emulator/registers.h"
#include "gtest/gtest.h"

namespace hindsight {
namespace {

class RecordTextTest : public ::testing::Test {
 protected:
  RecordTextTest() { line_.fill(0xab); }

  std::string Text(uint64_t count, RecordBody body, bool contents = false) {
    return RecordText(Record{count, std::move(body)}, {.contents = contents});
  }
  std::string Json(uint64_t count, RecordBody body) {
    JsonWriter json(/*compact=*/true);
    RecordJson(Record{count, std::move(body)}, {}, &json);
    return json.text();
  }

  std::array<uint8_t, kLineBytes> line_;
};

TEST_F(RecordTextTest, PageImport) {
  PageImport page = {.address = 0x7000,
                     .first = true,
                     .module = 2,
                     .module_offset = 0x1000,
                     .line_mask = 4,
                     .lines = line_};
  EXPECT_EQ(Text(5, page), "5 import page 0x7000 first module 2+0x1000 lines 1");
  EXPECT_NE(Text(5, page, /*contents=*/true).find("0x7080: abab"), std::string::npos);
  EXPECT_EQ(Json(5, page),
            R"({"count":5,"kind":"import page","address":"0x7000","first":true,"lineMask":"0x4",)"
            R"("module":2,"moduleOffset":4096})");
}

TEST_F(RecordTextTest, ContentsShorterThanTheMaskSaysAreNotRead) {
  PageImport page = {.address = 0x7000, .line_mask = ~uint64_t{0}, .lines = line_};
  EXPECT_NE(Text(5, page, /*contents=*/true).find("0x7000: abab"), std::string::npos);
}

TEST_F(RecordTextTest, SideEffect) {
  SideEffect effect = {.kind = SideEffectKind::kSyscall,
                       .sequence = 26,
                       .registers = {.index = {kRax}, .value = {3}}};
  EXPECT_EQ(Text(9, effect), "9 side effect syscall sequence 1A rax=0x3");
}

TEST_F(RecordTextTest, RegistersOutsideTheLayoutHaveNumbers) {
  SideEffect effect = {.registers = {.index = {999}, .value = {3}}};
  EXPECT_EQ(Text(9, effect), "9 side effect instruction word999=0x3");
}

TEST_F(RecordTextTest, Signal) {
  EXPECT_EQ(Text(9, Discontinuity{.sequence = 1, .signal = 11}),
            "9 discontinuity signal 11 sequence 1");
}

TEST_F(RecordTextTest, SyscallEvent) {
  ProcessEvent event = {.kind = EventKind::kSyscall,
                        .sequence = 3,
                        .thread = 7,
                        .count = 10,
                        .number = 1,
                        .arguments = {1, 0x7000},
                        .result = -9};
  EXPECT_EQ(EventText(event), "10 syscall sequence 3 thread 7 write(0x1, 0x7000) = -9");
}

TEST_F(RecordTextTest, WaitStatus) {
  EXPECT_EQ(WaitStatusText(3 << 8), "exited with status 3");
  EXPECT_EQ(WaitStatusText(11), "killed by signal 11 (Segmentation fault)");
}

}  // namespace
}  // namespace hindsight
