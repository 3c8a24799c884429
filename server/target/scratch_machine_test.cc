#include "server/target/scratch_machine.h"

#include <sys/mman.h>

#include <cerrno>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

constexpr uint64_t kCode = 0x400000;
constexpr uint64_t kHeap = 0x500000;
constexpr uint64_t kEmpty = 0x501000;  // anonymous, nothing recorded

// "inc rax" instructions, a heap page of ones, and one that the recording knows nothing of.
class ScratchMachineTest : public ::testing::Test {
 protected:
  ScratchMachineTest() {
    const auto source = [](uint64_t address, absl::Span<uint8_t> out) -> size_t {
      if (address >= kEmpty || address < kCode) return 0;
      constexpr uint8_t kIncRax[] = {0x48, 0xff, 0xc0};
      for (size_t i = 0; i < out.size(); ++i) {
        out[i] = address < kHeap ? kIncRax[(address + i - kCode) % 3] : 1;
      }
      return out.size();
    };
    machine_ = *ScratchMachine::Create({{.start = kCode,
                                         .end = kCode + kPageBytes,
                                         .protection = PROT_READ | PROT_EXEC,
                                         .inode = 1},
                                        {.start = kHeap,
                                         .end = kEmpty + kPageBytes,
                                         .protection = PROT_READ | PROT_WRITE,
                                         .name = "[heap]"}},
                                       source);
  }

  static RegisterFile AtCode() {
    RegisterFile registers;
    registers.rip = kCode;
    registers.rflags = 0x202;
    registers.mxcsr = 0x1f80;
    registers.fcw = 0x37f;
    return registers;
  }
  int Read(uint64_t address) {
    uint8_t byte = 0;
    return machine_->ReadMemory(address, absl::MakeSpan(&byte, 1)) == 1 ? byte : -1;
  }
  absl::Status Write(uint64_t address, uint8_t byte) {
    return machine_->WriteMemory(address, {&byte, 1});
  }

  std::unique_ptr<ScratchMachine> machine_;
};

TEST_F(ScratchMachineTest, WritesStayInTheCopy) {
  EXPECT_EQ(Read(kHeap), 1);
  EXPECT_TRUE(Write(kHeap, 2).ok());
  EXPECT_EQ(Read(kHeap), 2);
  EXPECT_EQ(Read(kHeap + 1), 1);
}

TEST_F(ScratchMachineTest, AnonymousMemoryNotRecordedIsZeroOnceWritten) {
  EXPECT_EQ(Read(kEmpty), -1);
  EXPECT_TRUE(Write(kEmpty, 2).ok());
  EXPECT_EQ(Read(kEmpty), 2);
  EXPECT_EQ(Read(kEmpty + 1), 0);
}

TEST_F(ScratchMachineTest, WritesAreWholeOrRefused) {
  const uint8_t bytes[] = {7, 7};
  EXPECT_EQ(machine_->WriteMemory(kEmpty + kPageBytes - 1, bytes).code(),
            absl::StatusCode::kNotFound);
  EXPECT_NE(Read(kEmpty + kPageBytes - 1), 7);
  EXPECT_EQ(machine_->WriteMemory(~uint64_t{0}, bytes).code(), absl::StatusCode::kNotFound);
}

TEST_F(ScratchMachineTest, RollBackRestoresTheProcessor) {
  machine_->cpu().SetRegisters(AtCode());
  machine_->Checkpoint();
  machine_->cpu().Step();
  machine_->cpu().Step();
  EXPECT_EQ(machine_->cpu().registers().gpr[kRax], 2);
  machine_->RollBack();
  EXPECT_EQ(machine_->cpu().registers().gpr[kRax], 0);
  EXPECT_EQ(machine_->cpu().pc(), kCode);
}

TEST_F(ScratchMachineTest, RollBackRestoresMemory) {
  const uint8_t stores[] = {0x88, 0x03, 0x88, 0x02};  // mov [rbx],al; mov [rdx],al
  ASSERT_TRUE(machine_->WriteMemory(kCode, stores).ok());
  ASSERT_TRUE(Write(kHeap, 5).ok());
  RegisterFile registers = AtCode();
  registers.gpr[kRax] = 7;
  registers.gpr[kRbx] = kHeap;
  registers.gpr[kRdx] = kEmpty;
  machine_->cpu().SetRegisters(registers);
  machine_->Checkpoint();
  // Twice: what is written after a rollback is rolled back, too.
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(machine_->cpu().Step().stop, Stop::kLimit);
    EXPECT_EQ(machine_->cpu().Step().stop, Stop::kLimit);
    EXPECT_EQ(Read(kHeap), 7);
    EXPECT_EQ(Read(kEmpty), 7);
    machine_->RollBack();
    EXPECT_EQ(Read(kHeap), 5);
    EXPECT_EQ(Read(kHeap + 1), 1);
    EXPECT_EQ(Read(kEmpty), 0);
    EXPECT_EQ(machine_->cpu().pc(), kCode);
  }
}

TEST_F(ScratchMachineTest, ALaterCheckpointKeepsWhatWasWrittenBefore) {
  const uint8_t stores[] = {0x88, 0x03, 0x88, 0x23};  // mov [rbx],al; mov [rbx],ah
  ASSERT_TRUE(machine_->WriteMemory(kCode, stores).ok());
  RegisterFile registers = AtCode();
  registers.gpr[kRax] = 0x0907;
  registers.gpr[kRbx] = kHeap;
  machine_->cpu().SetRegisters(registers);
  machine_->Checkpoint();
  machine_->cpu().Step();
  machine_->Checkpoint();
  machine_->cpu().Step();
  EXPECT_EQ(Read(kHeap), 9);
  machine_->RollBack();
  EXPECT_EQ(Read(kHeap), 7);
}

TEST_F(ScratchMachineTest, TheHeapGrowsWhereThereIsRoom) {
  const auto end = static_cast<int64_t>(kEmpty + kPageBytes);
  EXPECT_EQ(machine_->MoveBreak(0), end);
  EXPECT_EQ(machine_->MoveBreak(end + 10), end + 10);
  EXPECT_TRUE(Write(end, 3).ok());
  EXPECT_EQ(machine_->MoveBreak(end + (uint64_t{1} << 40)), end + int64_t{kPageBytes});
}

TEST_F(ScratchMachineTest, MappingsDoNotOverlap) {
  const int64_t first = machine_->MapAnonymous(1, PROT_READ | PROT_WRITE);
  const int64_t second = machine_->MapAnonymous(kPageBytes, PROT_READ | PROT_WRITE);
  EXPECT_GT(first, 0);
  EXPECT_EQ(second, first + int64_t{kPageBytes});
  EXPECT_TRUE(Write(first, 9).ok());
  EXPECT_EQ(machine_->MapAnonymous(0, PROT_READ), -ENOMEM);
}

}  // namespace
}  // namespace hindsight
