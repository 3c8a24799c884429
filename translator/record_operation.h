// Flavour record: instructions that are left to the agent, which runs HsRunOperation.

#ifndef HINDSIGHT_TRANSLATOR_RECORD_OPERATION_H_
#define HINDSIGHT_TRANSLATOR_RECORD_OPERATION_H_

#include "translator/block_writer.h"
#include "translator/guest/guest_instruction.h"

namespace hindsight {

// Of class kOperation. False: it cannot be written.
bool WriteOperation(const GuestInstruction& instruction, BlockWriter* writer);

// Whether the instruction shows flags which the architecture leaves undefined, or those that stick
// in the floating point units.
bool NeedsCorrection(const GuestInstruction& instruction);
// Before such an instruction: the agent may have to tell them.
void WriteCorrection(BlockWriter* writer);

}  // namespace hindsight

#endif  // HINDSIGHT_TRANSLATOR_RECORD_OPERATION_H_
