// Confines this process before it reads what somebody else has written.
//
// The emulator and the readers of traces are large and take hostile input; that they are free of
// faults is not assumed. So the process that runs them gives up beforehand what it does not need:
// afterwards it can read the trace, use descriptors that are open, compute, and end.

#ifndef HINDSIGHT_CONFINE_CONFINEMENT_H_
#define HINDSIGHT_CONFINE_CONFINEMENT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace hindsight {

struct ConfinementOptions {
  // Descriptors of the directories beneath which files may be opened for reading.
  std::vector<int> readable_directories;
  uint64_t memory_limit_bytes = 0;  // 0: DefaultMemoryLimit()
  // Called once, by a thread of its own, when that is exceeded. Should end the process.
  std::function<void()> out_of_memory;
};

// For good: no new privileges; no capability but to read files; Landlock; seccomp; and a budget of
// memory. Returns what of it this kernel does not do, one phrase each for the user; empty: nothing.
// Requires: no other thread runs.
std::vector<std::string> Confine(const ConfinementOptions& options);

}  // namespace hindsight

#endif  // HINDSIGHT_CONFINE_CONFINEMENT_H_
