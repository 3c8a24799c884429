#include "emulator/assist/host_assist.h"

#include <Zydis/Zydis.h>

#include <cstdint>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

class NoMemory final : public GuestMemory {
 public:
  bool Read(uint64_t address, absl::Span<uint8_t> out) override { return false; }
  bool Write(uint64_t address, absl::Span<const uint8_t> bytes) override { return false; }
  bool MayWrite(uint64_t address, absl::Span<uint8_t> old) override { return false; }
};

HostInstruction Prepare(HostAssist* assist, const std::vector<uint8_t>& code) {
  ZydisDecoder decoder;
  ZydisDecodedInstruction instruction;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
  ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  EXPECT_TRUE(ZYAN_SUCCESS(
      ZydisDecoderDecodeFull(&decoder, code.data(), code.size(), &instruction, operands)));
  std::optional<HostPlan> plan = MakeHostPlan(instruction, operands);
  EXPECT_TRUE(plan.has_value());
  return *assist->Prepare(*std::move(plan));
}

// "rw-p" and the like of the mapping that has `address`; of all mappings for 0.
std::string Rights(uint64_t address) {
  std::ifstream maps("/proc/self/maps");
  std::string all;
  for (std::string line; std::getline(maps, line);) {
    uint64_t start, end;
    char dash;
    std::string rights;
    std::istringstream(line) >> std::hex >> start >> dash >> end >> rights;
    if (address >= start && address < end) return rights;
    all += rights + " ";
  }
  return all;
}

// No mapping is writable and executable, however many stubs there are: they fill several blocks.
TEST(HostAssistTest, CodeIsNeverWritableAndExecutable) {
  constexpr int kMany = 2000;
  HostAssist assist;
  NoMemory memory;
  for (int i = 0; i < kMany; ++i) {
    const HostInstruction instruction =
        Prepare(&assist, {0xf3, 0x0f, 0xb8, 0xc3});  // popcnt eax, ebx
    RegisterFile registers = {};
    registers.gpr[kRbx] = static_cast<uint64_t>(i) | 0xff00;
    ASSERT_TRUE(assist.Run(instruction, &registers, &memory));
    ASSERT_EQ(registers.gpr[kRax],
              static_cast<uint64_t>(__builtin_popcount(i)) + 8 - __builtin_popcount(i & 0xff00));
    if (i % 100 == 0) {
      ASSERT_EQ(Rights(reinterpret_cast<uint64_t>(instruction.run)), "r-xp");
      ASSERT_EQ(Rights(0).find("wx"), std::string::npos) << Rights(0);
    }
  }
}

}  // namespace
}  // namespace hindsight
