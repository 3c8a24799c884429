// Flavour record: instructions that are left to the agent, which runs HsRunOperation.

#ifndef HINDSIGHT_TRANSLATOR_RECORD_OPERATION_H_
#define HINDSIGHT_TRANSLATOR_RECORD_OPERATION_H_

#include "translator/block_writer.h"
#include "translator/guest/guest_instruction.h"

namespace hindsight {

// Of class kOperation, where memory is accessed directly: whether the agent must execute it, since
// it can fault after it has done a part, or is an event in the order of threads.
bool IsOperation(const GuestInstruction& instruction, const BlockWriter& writer);

// Of class kOperation or kFence. False: it cannot be written.
bool WriteOperation(const GuestInstruction& instruction, BlockWriter* writer);

// Whether the instruction shows flags which the architecture leaves undefined, or those that stick
// in the floating point units.
bool NeedsCorrection(const GuestInstruction& instruction);
// Before such an instruction: the agent may have to tell them.
void WriteCorrection(BlockWriter* writer);
// Whether a replay executes the instruction as the processor does, which sets all condition codes
// of the x87 status.
bool SetsX87Conditions(const GuestInstruction& instruction);
// WriteCorrection before `instruction`, which needs it, unless it would correct nothing that the
// instruction stores.
void WriteCorrectionBefore(const GuestInstruction& instruction, BlockWriter* writer);

}  // namespace hindsight

#endif  // HINDSIGHT_TRANSLATOR_RECORD_OPERATION_H_
