#include "server/snapshots/edited_process.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <string>
#include <vector>

#include "keyframes/inspect/fake_process_view.h"

namespace hindsight {
namespace {

constexpr uint64_t kCode = 0x400000;
constexpr uint64_t kFunction = kCode + 0x800;  // *kVariable += rdi; returns kHeap + 0x100
constexpr uint64_t kHeap = 0x500000, kVariable = kHeap + 0x40;
constexpr uint64_t kStack = 0x600000, kRsp = kStack + 0x800;
constexpr uint64_t kReturn = kStack + 0x10;  // where a call returns to
constexpr int32_t kMain = 7, kOther = 8;

// Two threads, and what gdb does with them.
class EditedProcessTest : public testing::Test {
 protected:
  EditedProcessTest() {
    const std::vector<uint8_t> function = {
        0x48, 0x01, 0x3c, 0x25, 0x40, 0x00, 0x50, 0x00,  // add %rdi, kVariable
        0xb8, 0x00, 0x01, 0x50, 0x00,                    // mov $kHeap + 0x100, %eax
        0xc3};                                           // ret
    for (const uint64_t page : {kCode, kHeap, kStack}) original_.pages[page].resize(kPageBytes);
    std::copy(function.begin(), function.end(), original_.pages[kCode].begin() + 0x800);
    for (const uint64_t page : {kCode, kHeap, kStack}) {
      original_.regions.push_back({.start = page,
                                   .end = page + kPageBytes,
                                   .protection = PROT_READ | PROT_WRITE | PROT_EXEC});
    }
    for (const int32_t thread : {kMain, kOther}) {
      RegisterFile& registers = original_.registers[thread];
      registers.rip = kCode + thread;
      registers.rflags = 0x202;
      registers.mxcsr = 0x1f80;
      registers.fcw = 0x37f;
      registers.gpr[::hindsight::kRsp] = kRsp;
    }
  }

  void SetRegister(int32_t thread, int number, uint64_t value) {
    const size_t size = number == kRegisterEflags ? 4 : sizeof(value);
    const absl::Status status =
        process_.WriteRegister(thread, number, {reinterpret_cast<const uint8_t*>(&value), size});
    EXPECT_TRUE(status.ok()) << number << status;
  }
  absl::Status Set(uint64_t address, uint64_t value, size_t size = 8) {
    return process_.WriteMemory(kMain, address, {reinterpret_cast<const uint8_t*>(&value), size});
  }
  uint64_t Get(uint64_t address) {
    uint64_t value = 0;
    const auto known = process_.ReadMemory(
        kMain, address, absl::MakeSpan(reinterpret_cast<uint8_t*>(&value), sizeof(value)));
    return known.ok() && *known == sizeof(value) ? value : ~uint64_t{0};
  }
  // As gdb calls a function, and the session that sees the registers restored.
  void Call(uint64_t argument) {
    const RegisterFile saved = *process_.Registers(kMain);
    EXPECT_TRUE(Set(kRsp - 0x108, kReturn).ok());
    SetRegister(kMain, 5, argument);
    SetRegister(kMain, kRegisterRsp, kRsp - 0x108);
    SetRegister(kMain, kRegisterRip, kFunction);
    EXPECT_TRUE(process_.CopyRuns());
    std::string console;
    RunRequest request = {.thread = kMain};
    request.breakpoints.push_back({.address = kReturn});
    const auto stop = process_.Run(request, &console);
    ASSERT_TRUE(stop.ok());
    EXPECT_EQ(stop->kind, StopKind::kBreakpoint);
    EXPECT_TRUE(absl::IsFailedPrecondition(process_.Edits().status()));
    SetRegister(kMain, 0, saved.gpr[kRax]);
    SetRegister(kMain, 5, saved.gpr[kRdi]);
    SetRegister(kMain, kRegisterRsp, saved.gpr[::hindsight::kRsp]);
    SetRegister(kMain, kRegisterRip, saved.rip);
    SetRegister(kMain, kRegisterEflags, saved.rflags);
    EXPECT_EQ(*process_.Registers(kMain), saved);
  }
  std::string Edits() { return EditLines(process_.Edits().value()); }

  FakeProcessView original_;
  EditedProcess process_{&original_};
};

TEST_F(EditedProcessTest, AnEditOfMemoryIsSeenAndListed) {
  EXPECT_FALSE(process_.changed());
  ASSERT_TRUE(Set(kVariable, 42, 4).ok());
  EXPECT_EQ(Get(kVariable), 42u);
  EXPECT_TRUE(process_.changed());
  EXPECT_FALSE(process_.CopyRuns());
  EXPECT_EQ(Edits(), "memory 0x500040 2a000000\n");
  ASSERT_TRUE(Set(kVariable, 0, 4).ok());
  EXPECT_EQ(Edits(), "");
  process_.Discard();
  EXPECT_FALSE(process_.changed());
  EXPECT_TRUE(absl::IsNotFound(Set(0x700000, 1)));
}

TEST_F(EditedProcessTest, AnEditOutlivesACallWhoseWritesAreNone) {
  ASSERT_TRUE(Set(kVariable, 42).ok());
  Call(5);
  process_.Suspend();
  EXPECT_EQ(Get(kVariable), 42u);
  EXPECT_EQ(Edits(), "memory 0x500040 2a00000000000000\n");
  // What gdb writes into memory that malloc(5) gave it; and what a user writes somewhere.
  ASSERT_TRUE(process_.Resume());
  EXPECT_EQ(Get(kVariable), 47u);
  ASSERT_TRUE(Set(kHeap + 0x100, 0x6f6c6c6568, 5).ok());
  EXPECT_EQ(Edits(), "memory 0x500040 2a00000000000000\n");
  ASSERT_TRUE(Set(kHeap + 0x100, 1, 4).ok());
  EXPECT_EQ(Edits(), "memory 0x500040 2a00000000000000\nmemory 0x500100 01000000\n");
}

TEST_F(EditedProcessTest, EditsOfRegistersAreOfTheirThreads) {
  SetRegister(kMain, 1, 0x11);
  SetRegister(kOther, 2, 0x22);
  const std::string zmm(32, '\x5a');
  ASSERT_TRUE(process_
                  .WriteRegister(kOther, kRegisterZmm0High + 3,
                                 {reinterpret_cast<const uint8_t*>(zmm.data()), zmm.size()})
                  .ok());
  EXPECT_FALSE(process_.CopyRuns());
  EXPECT_EQ(Edits(),
            "register 7 rbx 0x11\n"
            "register 8 rcx 0x22\n"
            "register 8 zmm3.4 0x5a5a5a5a5a5a5a5a\n"
            "register 8 zmm3.5 0x5a5a5a5a5a5a5a5a\n"
            "register 8 zmm3.6 0x5a5a5a5a5a5a5a5a\n"
            "register 8 zmm3.7 0x5a5a5a5a5a5a5a5a\n");
  SetRegister(kMain, kRegisterRip, kFunction);
  EXPECT_TRUE(process_.CopyRuns());
}

TEST_F(EditedProcessTest, AnEditOfARegisterOutlivesACall) {
  SetRegister(kMain, 1, 0x11);
  Call(5);
  EXPECT_EQ(Edits(), "register 7 rbx 0x11\n");
  ASSERT_TRUE(Set(kVariable, 3, 1).ok());
  EXPECT_EQ(Edits(), "memory 0x500040 03\nregister 7 rbx 0x11\n");
}

}  // namespace
}  // namespace hindsight
