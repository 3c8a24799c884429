// Confines this process before it reads data from an untrusted source.
//
// The emulator and the readers of traces are large and take hostile input, so they are assumed to
// have exploitable faults. The process that runs them first drops all rights it does not need:
// afterwards it can read the trace, use open descriptors, compute, and exit.

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

// Irrevocable: no new privileges; no capability except to read files; Landlock; seccomp; and a
// memory budget. Returns the parts that this kernel does not support, a phrase each for the user.
// Requires: no other thread runs.
std::vector<std::string> Confine(const ConfinementOptions& options);

}  // namespace hindsight

#endif  // HINDSIGHT_CONFINE_CONFINEMENT_H_
