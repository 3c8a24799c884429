#include "recorder/emulate/trap_flag.h"

#include <Zydis/Zydis.h>
#include <ucontext.h>

#include <cstddef>
#include <optional>

namespace hindsight {
namespace {

bool HasTrapFlag(uint64_t address, const ReadMemory& read) {
  constexpr uint64_t kTrapFlag = 0x100;
  const std::optional<uint64_t> flags = ReadWord(read, address, sizeof(uint16_t));
  return flags.has_value() && (*flags & kTrapFlag) != 0;
}

// From the ucontext.
constexpr uint64_t kFlagsAt = offsetof(ucontext_t, uc_mcontext.gregs[REG_EFL]);

}  // namespace

bool SetsTrapFlag(const Instruction& instruction, const RegisterFile& registers,
                  const ReadMemory& read) {
  const uint64_t rsp = registers.gpr[kRsp];
  switch (instruction.mnemonic) {
    case ZYDIS_MNEMONIC_POPF:
    case ZYDIS_MNEMONIC_POPFQ:
      return HasTrapFlag(rsp, read);
    // The flags are the third of the words on the stack.
    case ZYDIS_MNEMONIC_IRET:
      return HasTrapFlag(rsp + 4, read);
    case ZYDIS_MNEMONIC_IRETD:
      return HasTrapFlag(rsp + 8, read);
    case ZYDIS_MNEMONIC_IRETQ:
      return HasTrapFlag(rsp + 16, read);
    default:
      return false;
  }
}

bool ReturnsToTrapFlag(const RegisterFile& registers, const ReadMemory& read) {
  // The handler's return has popped what is before the ucontext.
  return HasTrapFlag(registers.gpr[kRsp] + kFlagsAt, read);
}

uint64_t FlagsOfFrame(const RegisterFile& handler) {
  return handler.gpr[kRsp] + sizeof(uint64_t) + kFlagsAt;
}

}  // namespace hindsight
