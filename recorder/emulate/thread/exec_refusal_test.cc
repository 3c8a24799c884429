#include "recorder/emulate/thread/exec_refusal.h"

#include <gtest/gtest.h>
#include <limits.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

namespace hindsight {
namespace {

constexpr uint64_t kAddress = 0x1000;

// Memory that has `bytes` at kAddress, and nothing else.
ReadMemory Memory(std::string bytes) {
  return [bytes](uint64_t address, absl::Span<uint8_t> out) {
    if (address < kAddress || address + out.size() > kAddress + bytes.size()) return false;
    std::memcpy(out.data(), bytes.data() + (address - kAddress), out.size());
    return true;
  };
}

CallInFlight Call(int64_t number, uint64_t path) {
  RegisterFile registers;
  registers.gpr[kRax] = static_cast<uint64_t>(number);
  registers.gpr[kRdi] = path;
  return CallInFlight(registers);
}

TEST(ExecRefusalTest, PathEndsWithItsZero) {
  EXPECT_EQ(ReadPath(kAddress, Memory(std::string("/bin/a\0b", 8))), "/bin/a");
}

TEST(ExecRefusalTest, PathEndsWhereMemoryDoes) {
  EXPECT_EQ(ReadPath(kAddress, Memory("/bin")), "/bin");
  EXPECT_EQ(ReadPath(0, Memory("/bin")), "");
  EXPECT_EQ(ReadPath(kAddress, Memory(std::string(2 * PATH_MAX, 'x'))).size(), PATH_MAX);
}

TEST(ExecRefusalTest, PlainProgramsAreExecuted) {
  const ReadMemory memory = Memory(std::string("/bin/true", 10));
  EXPECT_EQ(ReasonNotToExec(Call(SYS_execve, kAddress), getpid(), memory), "");
}

TEST(ExecRefusalTest, OtherCallsExecuteNothing) {
  const ReadMemory memory = [](uint64_t, absl::Span<uint8_t>) {
    ADD_FAILURE() << "memory was read";
    return false;
  };
  EXPECT_EQ(ReasonNotToExec(Call(SYS_openat, kAddress), getpid(), memory), "");
}

}  // namespace
}  // namespace hindsight
