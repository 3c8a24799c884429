// Programs that have themselves trapped after each instruction, by the trap flag of rflags. A
// recorder steps by it as well: what such a program does cannot be recorded.

#ifndef HINDSIGHT_RECORDER_EMULATE_TRAP_FLAG_H_
#define HINDSIGHT_RECORDER_EMULATE_TRAP_FLAG_H_

#include "emulator/code/instruction.h"
#include "isa/registers.h"
#include "recorder/syscalls/argument_memory.h"

namespace hindsight {

// What follows "PROGRAM (process N) " where a recording ends for that reason.
inline constexpr char kTrapFlagReason[] =
    "has itself trapped after each instruction (trap flag), which is not recorded";

// Whether `instruction`, the next one, sets the flag: a popf or iret.
bool SetsTrapFlag(const Instruction& instruction, const RegisterFile& registers,
                  const ReadMemory& read);

// Whether rt_sigreturn, made with these registers, returns to code that has it.
bool ReturnsToTrapFlag(const RegisterFile& registers, const ReadMemory& read);

// Where the frame of a signal has the flags; `handler`: the registers that its handler begins with.
uint64_t FlagsOfFrame(const RegisterFile& handler);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_TRAP_FLAG_H_
