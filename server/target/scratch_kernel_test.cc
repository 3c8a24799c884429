#include "server/target/scratch_kernel.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <cerrno>
#include <csignal>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

constexpr uint64_t kHeap = 0x500000;
constexpr ThreadRef kThread = {77, 78};

// One page of heap, full of 'x'.
class ScratchKernelTest : public ::testing::Test {
 protected:
  ScratchKernelTest()
      : machine_(*ScratchMachine::Create({{.start = kHeap,
                                           .end = kHeap + kPageBytes,
                                           .protection = PROT_READ | PROT_WRITE,
                                           .name = "[heap]"}},
                                         [](uint64_t address, absl::Span<uint8_t> out) -> size_t {
                                           if (address < kHeap || address >= kHeap + kPageBytes)
                                             return 0;
                                           std::fill(out.begin(), out.end(), 'x');
                                           return out.size();
                                         })),
        kernel_(machine_.get(), &console_) {}

  std::variant<int64_t, ScratchKernel::Refusal> Ask(uint64_t number, uint64_t first = 0,
                                                    uint64_t second = 0, uint64_t third = 0,
                                                    uint64_t fourth = 0) {
    RegisterFile registers;
    registers.gpr[kRax] = number;
    registers.gpr[kRdi] = first;
    registers.gpr[kRsi] = second;
    registers.gpr[kRdx] = third;
    registers.gpr[kR10] = fourth;
    return kernel_.Call(kThread, registers);
  }
  template <typename... Arguments>
  int64_t Call(Arguments... arguments) {
    const auto answer = Ask(arguments...);
    EXPECT_TRUE(std::holds_alternative<int64_t>(answer));
    return std::get<int64_t>(answer);
  }
  template <typename... Arguments>
  int Refused(Arguments... arguments) {
    const auto answer = Ask(arguments...);
    const auto* refusal = std::get_if<ScratchKernel::Refusal>(&answer);
    return refusal == nullptr ? 0 : refusal->signal;
  }

  std::string console_;
  std::unique_ptr<ScratchMachine> machine_;
  ScratchKernel kernel_;
};

TEST_F(ScratchKernelTest, OutputGoesToTheConsole) {
  EXPECT_EQ(Call(SYS_write, 1, kHeap, 3), 3);
  EXPECT_EQ(Call(SYS_write, 2, kHeap, 1), 1);
  EXPECT_EQ(console_, "xxxx");
  EXPECT_EQ(Call(SYS_write, 1, 0x10, 3), -EFAULT);
}

TEST_F(ScratchKernelTest, OtherFilesAreNotServedWhichIsSaidOnce) {
  EXPECT_EQ(Call(SYS_write, 5, kHeap, 3), -ENOSYS);
  EXPECT_NE(console_.find("write fails"), std::string::npos);
  console_.clear();
  EXPECT_EQ(Call(SYS_write, 5, kHeap, 3), -ENOSYS);
  EXPECT_EQ(console_, "");
  EXPECT_EQ(Call(SYS_openat), -ENOSYS);
  EXPECT_NE(console_.find("openat fails"), std::string::npos);
}

TEST_F(ScratchKernelTest, IdsAreThoseOfTheThread) {
  EXPECT_EQ(Call(SYS_getpid), 77);
  EXPECT_EQ(Call(SYS_gettid), 78);
}

TEST_F(ScratchKernelTest, OnlyPrivateAnonymousMemoryIsMapped) {
  EXPECT_GT(Call(SYS_mmap, 0, kPageBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS), 0);
  EXPECT_EQ(Call(SYS_mmap, 0, kPageBytes, PROT_READ, MAP_SHARED | MAP_ANONYMOUS), -ENOSYS);
  EXPECT_EQ(Call(SYS_mmap, kHeap, kPageBytes, PROT_READ, MAP_PRIVATE | MAP_FIXED), -ENOSYS);
}

TEST_F(ScratchKernelTest, WhatCannotGoOnIsRefused) {
  EXPECT_EQ(Refused(SYS_exit_group), SIGKILL);
  constexpr uint64_t kValue = 0x78787878;  // "xxxx"
  EXPECT_EQ(Refused(SYS_futex, kHeap, FUTEX_WAIT, kValue), SIGSTOP);
  EXPECT_EQ(Call(SYS_futex, kHeap, FUTEX_WAIT, kValue + 1), 0);
  EXPECT_EQ(Call(SYS_futex, kHeap, FUTEX_WAKE, 1), 0);
}

TEST_F(ScratchKernelTest, ResultsInMemoryNeedMemory) {
  EXPECT_EQ(Call(SYS_clock_gettime, 0, kHeap), 0);
  EXPECT_EQ(Call(SYS_clock_gettime, 0, 0x10), -EFAULT);
  EXPECT_EQ(Call(SYS_getrandom, kHeap, 16), 16);
  EXPECT_EQ(Call(SYS_fstat, 1, kHeap), 0);
}

}  // namespace
}  // namespace hindsight
