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
// below that. Sets flags.
void EmitCallStack(Assembler* code);

// What a return leads to begins with the guest's stack pointer, less so many bytes, in r11.
inline constexpr int64_t kBelowReturn = 16;
// The guest's stack pointer is what it was before EmitPrepareReturn.
void EmitPrepareReturn(Assembler* code);
void EmitAfterReturn(Assembler* code);

// The target of a return that has released nothing else, once it has moved the stack pointer: the
// view has it as it was compared.
HostAddress ReturnTarget();

// `ret` to what return_host of the thread block has.
void EmitReturn(Assembler* code);

}  // namespace hindsight

#endif  // HINDSIGHT_TRANSLATOR_INDIRECT_H_
