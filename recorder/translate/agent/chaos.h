// A schedule that looks for bugs, for threads that run at the same time: each is held back now and
// then, before locked instructions, around system calls, and anywhere else.
//
// A thread has moods, drawn at random from the seed: how often it pauses, for how long, and after
// how many instructions it is looked at again. So one may be held up at every step for a while as
// others race ahead. Nothing of this is recorded: pauses lie between two instructions.
//
// Without a seed (BootParameters::chaos_seed) nothing happens. The thread itself.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_AGENT_CHAOS_H_
#define HINDSIGHT_RECORDER_TRANSLATE_AGENT_CHAOS_H_

#include <stdint.h>

#include "recorder/translate/agent/thread.h"

namespace hindsight::agent {

// The thread may pause here.
void MayPause(Thread* thread);

// Instructions until it may pause next, more than a block has.
uint64_t InstructionsUntilPause(const Thread& thread);

}  // namespace hindsight::agent

#endif  // HINDSIGHT_RECORDER_TRANSLATE_AGENT_CHAOS_H_
