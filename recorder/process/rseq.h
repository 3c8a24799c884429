// Restartable sequences: short pieces of code that a thread runs as if nothing else ran on its CPU,
// because the kernel has it start over if it was preempted in one (rseq(2)).
//
// A recorded thread runs in the emulator, where the kernel does not see it, so two threads may both
// assume that they are on the same CPU: no turn must end within such a sequence.

#ifndef HINDSIGHT_RECORDER_PROCESS_RSEQ_H_
#define HINDSIGHT_RECORDER_PROCESS_RSEQ_H_

#include <cstdint>
#include <functional>
#include <optional>

#include "absl/types/span.h"

namespace hindsight {

// Of struct rseq: what the kernel may store to whenever it lets the thread run.
constexpr uint64_t kRseqBytes = 32;

struct CriticalSequence {
  uint64_t start = 0;
  uint64_t end = 0;    // after its last instruction, which commits
  uint64_t abort = 0;  // where the thread starts over
};

// The sequence that a thread at `pc`, whose struct rseq is at `rseq`, is in the middle of; at its
// first instruction it is not yet. `read` reads the memory that the thread sees.
using MemoryReadFunction = std::function<bool(uint64_t address, absl::Span<uint8_t> out)>;
std::optional<CriticalSequence> SequenceAt(uint64_t rseq, uint64_t pc,
                                           const MemoryReadFunction& read);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PROCESS_RSEQ_H_
