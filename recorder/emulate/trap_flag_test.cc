#include "recorder/emulate/trap_flag.h"

#include <signal.h>
#include <ucontext.h>

#include <cstring>
#include <vector>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

constexpr uint64_t kStack = 0x8000, kTrapFlag = 0x100;

// A stack of these words, at `address`.
ReadMemory Stack(std::vector<uint64_t> words, uint64_t address = kStack) {
  return [words, address](uint64_t at, absl::Span<uint8_t> out) {
    const uint64_t bytes = words.size() * sizeof(uint64_t);
    if (at < address || at + out.size() > address + bytes) return false;
    std::memcpy(out.data(), reinterpret_cast<const uint8_t*>(words.data()) + (at - address),
                out.size());
    return true;
  };
}

bool Sets(std::vector<uint8_t> code, std::vector<uint64_t> stack) {
  RegisterFile registers;
  registers.gpr[kRsp] = kStack;
  return SetsTrapFlag(Classify(code), registers, Stack(std::move(stack)));
}

TEST(TrapFlagTest, IsInWhatPopfPops) {
  EXPECT_TRUE(Sets({0x9d}, {0x302}));
  EXPECT_TRUE(Sets({0x66, 0x9d}, {0x302}));
  EXPECT_FALSE(Sets({0x9d}, {0x202, 0x302}));
  EXPECT_FALSE(Sets({0x9d}, {}));
  EXPECT_FALSE(Sets({0x58}, {0x302}));  // pop rax
}

TEST(TrapFlagTest, IsInWhatIretReturnsTo) {
  EXPECT_TRUE(Sets({0x48, 0xcf}, {0x1000, 0x33, 0x302}));
  EXPECT_FALSE(Sets({0x48, 0xcf}, {0x1000, 0x302, 0x202}));
  EXPECT_TRUE(Sets({0xcf}, {0x3300001000, 0x302}));
  EXPECT_TRUE(Sets({0x66, 0xcf}, {0x030200331000}));
}

// As the kernel itself lays a frame out.
bool seen, found;
void OnSignal(int, siginfo_t*, void* context) {
  auto* const ucontext = static_cast<ucontext_t*>(context);
  RegisterFile registers;
  registers.gpr[kRsp] = reinterpret_cast<uint64_t>(context);
  const ReadMemory read = [](uint64_t at, absl::Span<uint8_t> out) {
    std::memcpy(out.data(), reinterpret_cast<const void*>(at), out.size());
    return true;
  };
  const bool before = ReturnsToTrapFlag(registers, read);
  registers.gpr[kRsp] -= 8;  // as the handler has begun
  found =
      FlagsOfFrame(registers) == reinterpret_cast<uint64_t>(&ucontext->uc_mcontext.gregs[REG_EFL]);
  registers.gpr[kRsp] += 8;
  ucontext->uc_mcontext.gregs[REG_EFL] |= kTrapFlag;
  seen = !before && ReturnsToTrapFlag(registers, read);
  ucontext->uc_mcontext.gregs[REG_EFL] &= ~int64_t{kTrapFlag};
}

TEST(TrapFlagTest, IsInTheFrameOfASignal) {
  struct sigaction action = {};
  action.sa_sigaction = &OnSignal;
  action.sa_flags = SA_SIGINFO;
  ASSERT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);
  raise(SIGUSR1);
  EXPECT_TRUE(seen);
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace hindsight
