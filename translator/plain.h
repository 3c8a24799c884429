// Flavour plain: an instruction's memory accesses are its own.

#ifndef HINDSIGHT_TRANSLATOR_PLAIN_H_
#define HINDSIGHT_TRANSLATOR_PLAIN_H_

#include "translator/block_writer.h"
#include "translator/guest/guest_instruction.h"

namespace hindsight {

// Writes an instruction that does not end the block. False: it cannot be written (the code written
// so far is useless).
bool WritePlain(const GuestInstruction& instruction, BlockWriter* writer);

}  // namespace hindsight

#endif  // HINDSIGHT_TRANSLATOR_PLAIN_H_
