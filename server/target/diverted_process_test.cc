#include "server/target/diverted_process.h"

#include <sys/mman.h>

#include <cstring>

#include "gtest/gtest.h"
#include "keyframes/inspect/fake_process_view.h"

namespace hindsight {
namespace {

constexpr uint64_t kCode = 0x400000;
constexpr uint64_t kHeap = 0x500000;    // known, in use
constexpr uint64_t kUnused = 0x501000;  // known to be zeros: nobody has touched it
constexpr int32_t kMain = 7, kOther = 8;

// Two threads in front of "inc rax" instructions.
class DivertedProcessTest : public ::testing::Test {
 protected:
  DivertedProcessTest() {
    std::vector<uint8_t>& code = recorded_.pages[kCode];
    while (code.size() + 3 <= kPageBytes) code.insert(code.end(), {0x48, 0xff, 0xc0});
    code.resize(kPageBytes, 0x90);
    recorded_.pages[kHeap].resize(kPageBytes, 0);
    recorded_.pages[kUnused].resize(kPageBytes, 0);
    recorded_.untouched = {kUnused};
    recorded_.regions = {
        {.start = kCode,
         .end = kCode + kPageBytes,
         .protection = PROT_READ | PROT_EXEC,
         .inode = 1},
        {.start = kHeap, .end = kUnused + kPageBytes, .protection = PROT_READ | PROT_WRITE}};
    for (const int32_t thread : {kMain, kOther}) {
      RegisterFile& registers = recorded_.registers[thread];
      registers.rip = kCode;
      registers.rflags = 0x202;
      registers.mxcsr = 0x1f80;
      registers.fcw = 0x37f;
      registers.gpr[kRax] = thread;
    }
    recorded_.syscall_numbers[kMain] = 39;
  }

  uint64_t Rax(int32_t thread) { return process_.Registers(thread).gpr[kRax]; }
  void Step() { EXPECT_EQ(process_.Run({.step = true}, &console_).kind, StopKind::kStep); }
  void Write(uint64_t address, uint8_t byte) {
    EXPECT_TRUE(process_.WriteMemory(address, {&byte, 1}).ok());
  }
  int Read(uint64_t address) {
    uint8_t byte = 0;
    const auto known = process_.ReadMemory(kMain, address, absl::MakeSpan(&byte, 1));
    return known.ok() ? byte : -1;
  }

  FakeProcessView recorded_;
  DivertedProcess process_{&recorded_};
  std::string console_;
};

TEST_F(DivertedProcessTest, BeginsWithTheRecordedRegisters) {
  EXPECT_FALSE(process_.exists());
  ASSERT_TRUE(process_.Begin(kMain).ok());
  EXPECT_TRUE(process_.active());
  EXPECT_EQ(Rax(kMain), kMain);
  EXPECT_EQ(process_.SyscallNumber(kMain), 39);
  EXPECT_FALSE(process_.HasRegistersOf(kOther));
}

TEST_F(DivertedProcessTest, OneThreadRunsAtATimeAndEachKeepsItsRegisters) {
  ASSERT_TRUE(process_.Begin(kMain).ok());
  Step();
  ASSERT_TRUE(process_.Begin(kOther).ok());
  EXPECT_EQ(process_.thread(), kOther);
  Step();
  Step();
  EXPECT_EQ(Rax(kOther), kOther + 2);
  EXPECT_EQ(Rax(kMain), kMain + 1);
  ASSERT_TRUE(process_.Begin(kMain).ok());
  Step();
  EXPECT_EQ(Rax(kMain), kMain + 2);
  EXPECT_EQ(Rax(kOther), kOther + 2);
}

TEST_F(DivertedProcessTest, AThreadThatIsNotThereBeginsNothing) {
  EXPECT_EQ(process_.Begin(99).code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(process_.exists());
  ASSERT_TRUE(process_.Begin(kMain).ok());
  EXPECT_FALSE(process_.Begin(99).ok());
  EXPECT_EQ(process_.thread(), kMain);
}

TEST_F(DivertedProcessTest, SetAsideItShowsOnlyWhereNothingIsRecorded) {
  ASSERT_TRUE(process_.Begin(kMain).ok());
  Write(kHeap, 1);
  Write(kUnused, 2);
  EXPECT_EQ(Read(kHeap), 1);
  process_.Suspend();
  EXPECT_FALSE(process_.active());
  EXPECT_EQ(Read(kHeap), 0);
  EXPECT_EQ(Read(kUnused), 2);
}

TEST_F(DivertedProcessTest, ResumedItHasItsMemoryAndTheRecordedRegisters) {
  EXPECT_FALSE(process_.Resume());
  ASSERT_TRUE(process_.Begin(kMain).ok());
  Write(kHeap, 1);
  Step();
  process_.Suspend();
  EXPECT_TRUE(process_.Resume());
  EXPECT_EQ(Read(kHeap), 1);
  EXPECT_EQ(Rax(kMain), kMain);
}

TEST_F(DivertedProcessTest, AbandonEndsTheActiveCopyOnly) {
  ASSERT_TRUE(process_.Begin(kMain).ok());
  process_.Abandon();
  EXPECT_FALSE(process_.exists());

  ASSERT_TRUE(process_.Begin(kMain).ok());
  Write(kUnused, 2);
  process_.Suspend();
  ASSERT_TRUE(process_.Begin(kMain).ok());
  Write(kUnused, 3);
  process_.Abandon();
  EXPECT_FALSE(process_.active());
  EXPECT_EQ(Read(kUnused), 2) << "of the copy set aside";
  EXPECT_TRUE(process_.Resume());
  EXPECT_EQ(Read(kUnused), 2);
}

TEST_F(DivertedProcessTest, EndThrowsAwayBothKinds) {
  ASSERT_TRUE(process_.Begin(kMain).ok());
  process_.End();
  EXPECT_FALSE(process_.exists());
  ASSERT_TRUE(process_.Begin(kMain).ok());
  process_.Suspend();
  process_.End();
  EXPECT_FALSE(process_.Resume());
}

}  // namespace
}  // namespace hindsight
