// Flavour record: loads are compared with the view, stores go to the view and to memory.

#ifndef HINDSIGHT_TRANSLATOR_RECORD_H_
#define HINDSIGHT_TRANSLATOR_RECORD_H_

#include "translator/block_writer.h"
#include "translator/guest_instruction.h"

namespace hindsight {

// Writes an instruction that does not end the block. False: it cannot be written (the code written
// so far is useless).
bool WriteRecorded(const GuestInstruction& instruction, BlockWriter* writer);

// Compares the bytes at `address` with the view. Uses r11; flags stay as they are unless the guest
// does not need them. Requires: no register is spilled, and r11 is not part of the address.
void CheckMemory(const HostAddress& address, int bytes, BlockWriter* writer);

// The same for 8 bytes, which `seen` becomes. Requires: rcx is spilled; it is overwritten.
void CheckByRcx(const HostAddress& address, int seen, BlockWriter* writer);

// Stores r11 where the guest's next push goes, in the view.
void StorePushed(BlockWriter* writer);

}  // namespace hindsight

#endif  // HINDSIGHT_TRANSLATOR_RECORD_H_
