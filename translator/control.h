// Ends of blocks: branches, calls, returns, system calls and what is left to the agent.

#ifndef HINDSIGHT_TRANSLATOR_CONTROL_H_
#define HINDSIGHT_TRANSLATOR_CONTROL_H_

#include "translator/block_writer.h"
#include "translator/guest/guest_instruction.h"
#include "translator/translator.h"

namespace hindsight {

// Writes the instruction that ends a block. Requires: `control` is not kNone. `flags_at_return`:
// the status flags that are read where a call returns. False: it cannot be written (the code
// written so far is useless).
bool WriteControl(const GuestInstruction& instruction, Control control, uint32_t flags_at_return,
                  Flavour flavour, BlockWriter* writer);

// Writes a conditional jump after which the block goes on if it is not taken.
void WriteSideExit(const GuestInstruction& instruction, BlockWriter* writer);

// Whether a cycle of blocks could be closed here, so that the block must test the counter.
bool MayCloseCycle(const GuestInstruction& instruction, Control control);

}  // namespace hindsight

#endif  // HINDSIGHT_TRANSLATOR_CONTROL_H_
