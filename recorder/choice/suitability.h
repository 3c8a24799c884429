// Why the engine that translates cannot record a program that has been launched: found before its
// first instruction, so that another engine can record it instead.

#ifndef HINDSIGHT_RECORDER_CHOICE_SUITABILITY_H_
#define HINDSIGHT_RECORDER_CHOICE_SUITABILITY_H_

#include <sys/types.h>

#include <string>

#include "recorder/choice/executable_facts.h"
#include "recorder/process/memory_map.h"

namespace hindsight {

// Each returns what follows "engine translate cannot ", or nothing.

// What the process, stopped at its first instruction, has been given. For certain.
std::string ReasonNotToTranslate(pid_t process);
// What the file of a program tells of what it will do. It may never come to it.
std::string ReasonToDoubt(const ExecutableFacts& facts);
// Those facts.
ExecutableFacts FactsOf(const std::string& executable);

// A part of it.
std::string ReasonInMap(const MemoryMap& map);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_CHOICE_SUITABILITY_H_
