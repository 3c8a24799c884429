// What an instruction has stored that the thread itself executed.

#ifndef HINDSIGHT_RECORDER_EMULATE_THREAD_INSTRUCTION_OUTPUTS_H_
#define HINDSIGHT_RECORDER_EMULATE_THREAD_INSTRUCTION_OUTPUTS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "isa/registers.h"
#include "recorder/syscalls/syscall_outputs.h"

namespace hindsight {

// Of the instruction that starts at code[0], executed with `before` in the registers. Not known if
// it does not decode, or is a system call in disguise.
SyscallOutputs OutputsOfInstruction(absl::Span<const uint8_t> code, const RegisterFile& before);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_THREAD_INSTRUCTION_OUTPUTS_H_
