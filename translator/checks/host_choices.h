// What processors are free to do as they like, and do differently, or with the trap flag otherwise
// than without. AMD's do none of it: there everything is compared.
//
// Stateless.

#ifndef HINDSIGHT_TRANSLATOR_CHECKS_HOST_CHOICES_H_
#define HINDSIGHT_TRANSLATOR_CHECKS_HOST_CHOICES_H_

#include <cstdint>

#include "isa/registers.h"
#include "translator/guest/guest_instruction.h"

namespace hindsight {

// A rotation by more than one bit leaves OF undefined; what some processors leave there depends on
// more than the operands: it is not the same twice.
bool LeavesOverflowOpen(const GuestInstruction& instruction);

// A string instruction with addresses of 32 bits: where REP repeats it no time, because ecx is 0,
// the upper halves of its registers may become zero all the same.
bool LeavesUpperHalvesOpen(const GuestInstruction& instruction);

// A store of the kind of movntq that faults may have reset x87's TOP, or not: that depends on what
// came before.
bool LeavesTopOpen(const GuestInstruction& instruction);

// Of ten bytes of which the last are in a missing page some processors have stored the first eight
// when they fault. The address of an operand of `instruction` that is stored so; 0: there is none.
uint64_t SplitStoreAt(const GuestInstruction& instruction, const RegisterFile& registers);
inline constexpr uint64_t kSplitStoreBytes = 8;

// A string instruction with REP and addresses of 32 bits that faults at once: whether the upper
// halves of its registers are zero by then. Clears them.
void ClearUpperHalves(const GuestInstruction& faulting, RegisterFile* registers);

// Whether flags are as before the instruction where `faulting` has stopped in the middle: other
// processors, and the agent, show those of the iteration before.
bool RestoresFlagsAtFault(const GuestInstruction& faulting);

}  // namespace hindsight

#endif  // HINDSIGHT_TRANSLATOR_CHECKS_HOST_CHOICES_H_
