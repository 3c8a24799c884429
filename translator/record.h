// Flavour record: an instruction reads what the view holds, after that was found to be what memory
// holds; it writes to the view, and then to memory.

#ifndef HINDSIGHT_TRANSLATOR_RECORD_H_
#define HINDSIGHT_TRANSLATOR_RECORD_H_

#include "translator/block_writer.h"
#include "translator/guest/guest_instruction.h"

namespace hindsight {

// Writes an instruction that does not end the block. False: it cannot be written (the code written
// so far is useless).
bool WriteRecord(const GuestInstruction& instruction, BlockWriter* writer);

// Whether it may be written while the writer keeps a register that it does not use, and may have
// one kept.
bool RunsWithKept(const GuestInstruction& instruction);

}  // namespace hindsight

#endif  // HINDSIGHT_TRANSLATOR_RECORD_H_
