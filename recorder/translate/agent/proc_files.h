// What /proc shows to the program of itself: its own part of the memory map, and its stack where
// that is.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_AGENT_PROC_FILES_H_
#define HINDSIGHT_RECORDER_TRANSLATE_AGENT_PROC_FILES_H_

#include <stdint.h>

#include "recorder/translate/agent/calls.h"
#include "recorder/translate/agent/control.h"

namespace hindsight::agent {

// The initial stack, of which `places` tells, has been moved up by `distance` bytes and begins at
// `stack_pointer` now: the kernel is told (maps, auxv, cmdline, environ, stat). Where it does not
// allow that, it shows the old one.
void TellMovedStack(const ImagePlaces& places, uint64_t stack_pointer, uint64_t distance);

// `call` has been made and has its result; `made` is it before. If it has opened such a file of
// this process, that is replaced by one with the program's regions: as they are now, however often
// it is read.
void ShowOwnMap(const Thread& thread, const GuestCall& made, GuestCall* call);

}  // namespace hindsight::agent

#endif  // HINDSIGHT_RECORDER_TRANSLATE_AGENT_PROC_FILES_H_
