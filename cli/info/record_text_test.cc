#include "cli/info/record_text.h"

#include <array>

#include "gtest/gtest.h"
#include "isa/registers.h"

namespace hindsight {
namespace {

class RecordTextTest : public ::testing::Test {
 protected:
  RecordTextTest() { line_.fill(0xab); }

  std::string Text(uint64_t count, RecordBody body, bool contents = false) {
    return RecordText(Record{count, std::move(body)}, {.contents = contents});
  }
  std::string JsonOf(uint64_t count, RecordBody body) {
    return RecordJson(Record{count, std::move(body)}, {}).dump();
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
  EXPECT_EQ(JsonOf(5, page),
            R"({"count":5,"kind":"import page","address":"0x7000","first":true,"lineMask":"0x4",)"
            R"("module":2,"moduleOffset":4096})");
}

TEST_F(RecordTextTest, MappedRange) {
  const MappedRange range = {0x7000, 0x2000, 2, 0x1000}, zeros = {0x7000, 0x2000};
  EXPECT_EQ(Text(5, range), "5 mapped 0x7000 size 8192 module 2+0x1000");
  EXPECT_EQ(Text(5, zeros), "5 mapped 0x7000 size 8192 zeros");
  EXPECT_EQ(JsonOf(5, range),
            R"({"count":5,"kind":"mapped","address":"0x7000","size":8192,"module":2,)"
            R"("moduleOffset":4096})");
}

TEST_F(RecordTextTest, UsedPages) {
  const std::vector<uint64_t> pages = {0x7000, 0x9000};
  EXPECT_EQ(Text(5, UsedPages{true, pages}), "5 used pages 2 complete");
  EXPECT_EQ(Text(5, UsedPages{false, pages}, /*contents=*/true),
            "5 used pages 2\n    0x7000 0x9000");
  EXPECT_EQ(JsonOf(5, UsedPages{true, pages}),
            R"({"count":5,"kind":"used pages","complete":true,"pages":["0x7000","0x9000"]})");
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

TEST_F(RecordTextTest, KnownLines) {
  PageImport page = {.address = 0x7000, .line_mask = 4, .lines = line_, .known_mask = 4};
  EXPECT_EQ(Text(5, page), "5 import page 0x7000 lines 1 known 1");
  EXPECT_NE(JsonOf(5, page).find(R"("knownMask":"0x4")"), std::string::npos);
}

TEST_F(RecordTextTest, OrderRun) {
  const std::vector<uint64_t> counts = {3, 4, 9};
  const OrderRun run = {26, counts};
  EXPECT_EQ(Text(10, run), "10 order sequence 1A events 3 counts 3 to 9");
  EXPECT_EQ(Text(10, run, /*contents=*/true), "10 order sequence 1A events 3\n    3 4 9");
  EXPECT_EQ(JsonOf(10, run), R"({"count":10,"kind":"order","sequence":26,"counts":[3,4,9]})");
}

TEST_F(RecordTextTest, EventsOfThreadsAndProcesses) {
  ProcessEvent event = {
      .kind = EventKind::kThreadStart, .sequence = 3, .thread = 8, .number = 7, .text = "worker"};
  EXPECT_EQ(EventText(event), "0 thread-start sequence 3 thread 8 by 7 worker");
  event = {.kind = EventKind::kFork, .thread = 7, .count = 9, .arguments = {1, 0}, .result = 100};
  EXPECT_EQ(EventText(event), "9 fork thread 7 child 100 by vfork, not recorded");
  event = {.kind = EventKind::kSlice,
           .sequence = 4,
           .thread = 7,
           .count = 9,
           .arguments = {2'500'000'000, 2'000'000'000, 3}};
  EXPECT_EQ(EventText(event),
            "9 slice sequence 4 thread 7 resumed 2.500000 s, one before ended 2.000000 s, cpu 3");
  event = {.kind = EventKind::kSchedule, .thread = 7, .arguments = {1, 3, 2}};
  EXPECT_EQ(EventText(event), "0 schedule thread 7 cpu 3 before 2");
}

TEST_F(RecordTextTest, WaitStatus) {
  EXPECT_EQ(WaitStatusText(3 << 8), "exited with status 3");
  EXPECT_EQ(WaitStatusText(11), "killed by signal 11 (Segmentation fault)");
}

}  // namespace
}  // namespace hindsight
