// Random instructions of every form: legacy maps, VEX and EVEX; every way to address memory,
// relative to rip and absolute among them; every register in every field, r10 and r11 more often.
// For tests.
//
// A value of its seed. One thread.

#ifndef HINDSIGHT_TRANSLATOR_CHECKS_RANDOM_FORM_H_
#define HINDSIGHT_TRANSLATOR_CHECKS_RANDOM_FORM_H_

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "isa/registers.h"
#include "translator/guest/guest_instruction.h"

namespace hindsight {

// Where operands should lie.
struct OperandMemory {
  uint64_t begin = 0, end = 0;
  uint64_t fs_base = 0, gs_base = 0;
};

// Which maps are drawn from.
// kLocked: those that lock, with and without the prefix; some of kLegacy.
enum class FormKind : uint8_t { kLegacy, kX87, kVex, kEvex, kLocked };

// An instruction at `pc` that decodes and is no branch.
GuestInstruction RandomForm(FormKind kind, uint64_t pc, const OperandMemory& memory,
                            std::mt19937_64* random);

// Changes general registers, and vector registers that are indices, so that the memory operands of
// `instruction` lie in `memory`, as far as that can be done. Hidden operands as well.
void AimOperands(const GuestInstruction& instruction, const OperandMemory& memory,
                 std::mt19937_64* random, RegisterFile* registers);

// Whether some of the operand that it writes may stay as it is.
bool StoresPartly(const GuestInstruction& instruction);

// Whether a memory operand begins elsewhere, since it could not be aimed.
bool AimsElsewhere(const GuestInstruction& instruction, const OperandMemory& memory,
                   const RegisterFile& registers);

}  // namespace hindsight

#endif  // HINDSIGHT_TRANSLATOR_CHECKS_RANDOM_FORM_H_
