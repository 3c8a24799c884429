// The agent's beginnings: its memory, and the program's stack in another place.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_AGENT_BOOT_H_
#define HINDSIGHT_RECORDER_TRANSLATE_AGENT_BOOT_H_

#include <stdint.h>

#include "recorder/translate/agent/thread.h"
#include "recorder/translate/base/control.h"

namespace hindsight::agent {

inline ControlBlock* Control() { return reinterpret_cast<ControlBlock*>(kControlAddress); }

const BootParameters& Boot();

// Maps what process and recorder share from `file`, in place of what is there. 0 or an error.
int64_t MapShared(int file);

// Memory for thread `number`, whose gap is not mapped yet; null if there is none. Only the fields
// that tell where things are have been set.
Thread* MakeThread(uint64_t number);
// The same where an earlier thread's memory is.
Thread* ResetThread(uint64_t number);

// A memory file, also if the program has as many files as it may have, as far as that can be
// changed for a moment. Its descriptor or an error.
int64_t MakeMemoryFileAnyway();

// Moves the initial stack, which ends at `stack_end`, and all pointers in it, to kStackEnd. The new
// stack pointer, or an error.
int64_t MoveStack(uint64_t stack_pointer, uint64_t stack_end);

// The initial stack, of which `places` tells, has been moved up by `distance` bytes and begins at
// `stack_pointer` now: the kernel is told, which shows it in /proc (maps, auxv, cmdline, environ,
// stat). Where it does not allow that, it shows the old one.
void TellMovedStack(const ImagePlaces& places, uint64_t stack_pointer, uint64_t distance);

}  // namespace hindsight::agent

#endif  // HINDSIGHT_RECORDER_TRANSLATE_AGENT_BOOT_H_
