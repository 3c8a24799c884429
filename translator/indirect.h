// Pieces of indirect branches that blocks and stubs have in common: the thread's tables, and the
// flags that are kept in the thread block meanwhile.
//
// Functions that write host instructions; one thread at a time.

#ifndef HINDSIGHT_TRANSLATOR_INDIRECT_H_
#define HINDSIGHT_TRANSLATOR_INDIRECT_H_

#include "translator/host/assembler.h"

namespace hindsight {

// The entry that may be that of the guest pc in register `pc`: its first word is the pc if it is.
// Changes register `number`; no flags.
HostAddress EmitTableEntry(int pc, int number, Assembler* code);

// The entry's other word: where the pc leads.
HostAddress HostOfEntry(HostAddress entry);

// Sets the status flags to those of the thread block's flags_aside. Changes rax.
void EmitRestoreFlags(Assembler* code);

// The target of a return that has released nothing else, once it has moved the stack pointer: the
// view has it as it was compared. `direct`: memory has it, which nobody else changes.
HostAddress ReturnTarget(bool direct);

// A return to the guest pc in r11, which is where ReturnTarget says: jumps where the word for it
// says. Sets flags.
void EmitReturn(Assembler* code);

}  // namespace hindsight

#endif  // HINDSIGHT_TRANSLATOR_INDIRECT_H_
