// Instructions whose result the recorder computes itself, without the process: cpuid, which answers
// for the processor that the program is shown, and rdtsc and rdtscp, which read the host's counter.

#ifndef HINDSIGHT_RECORDER_EMULATE_THREAD_ANSWERED_INSTRUCTIONS_H_
#define HINDSIGHT_RECORDER_EMULATE_THREAD_ANSWERED_INSTRUCTIONS_H_

#include "emulator/code/instruction.h"
#include "isa/cpuid.h"
#include "isa/registers.h"

namespace hindsight {

// `may_forbid_tsc`: the program may have chosen that rdtsc faults (prctl PR_SET_TSC): then the
// thread has to try.
bool IsAnswered(const Instruction& instruction, bool may_forbid_tsc);

// The registers after `instruction`, executed with `before`. Requires: IsAnswered.
RegisterFile AnswerInstruction(const Instruction& instruction, CpuModel model,
                               const RegisterFile& before);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_THREAD_ANSWERED_INSTRUCTIONS_H_
