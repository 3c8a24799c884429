// Pieces of indirect branches that blocks and stubs have in common: the thread's tables, and the
// flags that are kept in the thread block meanwhile.
//
// Functions that write host instructions; one thread at a time.

#ifndef HINDSIGHT_TRANSLATOR_INDIRECT_H_
#define HINDSIGHT_TRANSLATOR_INDIRECT_H_

#include "translator/host/assembler.h"

namespace hindsight {

// The entry that may be that of the guest pc in register `pc`: its first word is the pc if it is.
// `table`: HS_TABLE_OFFSET or HS_RETURNS_OFFSET. Changes register `number`; no flags.
HostAddress EmitTableEntry(int pc, int number, int table, Assembler* code);

// The entry's other word: where the pc leads.
HostAddress HostOfEntry(HostAddress entry);

// Sets the status flags to those of the thread block's flags_aside. Changes rax.
void EmitRestoreFlags(Assembler* code);

// Has rsp point to where calls push that leave the guest's stack pointer as it is in r11: right
// below that. No flags.
void EmitCallStack(Assembler* code);

// `ret` to what return_host of the thread block has. r11 has the guest's rsp then.
void EmitReturn(Assembler* code);

}  // namespace hindsight

#endif  // HINDSIGHT_TRANSLATOR_INDIRECT_H_
