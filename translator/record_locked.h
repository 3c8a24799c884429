// Flavour record: locked instructions that translated code executes itself.
//
//   memory:  xadd, xchg, cmpxchg, or a loop of cmpxchg    what memory had is known
//   clock:   lfence, rdtsc                                nothing comes between
//   compare: the view shows what memory had               if not, the agent goes on
//   ring:    struct HsLockedEntry
//   view:    the instruction itself, unlocked             registers and flags as they are to be
//
// The agent does all of it where there is no room (HsThreadBlock::locked_limit). If memory is
// accessed directly, which no other thread does then, it is the instruction itself, the clock, and
// the ring.

#ifndef HINDSIGHT_TRANSLATOR_RECORD_LOCKED_H_
#define HINDSIGHT_TRANSLATOR_RECORD_LOCKED_H_

#include "translator/block_writer.h"
#include "translator/guest/guest_instruction.h"
#include "translator/runtime/operation.h"

namespace hindsight {

// Whether `instruction`, which `operation` describes, can be written so.
bool IsLockedHere(const GuestInstruction& instruction, const HsOperation& operation,
                  const BlockWriter& writer);

// Requires: IsLockedHere. False: it cannot be written.
bool WriteLocked(const GuestInstruction& instruction, const HsOperation& operation,
                 BlockWriter* writer);

}  // namespace hindsight

#endif  // HINDSIGHT_TRANSLATOR_RECORD_LOCKED_H_
