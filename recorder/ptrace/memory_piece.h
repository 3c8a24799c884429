// A piece of a process's memory, to be read or written.

#ifndef HINDSIGHT_RECORDER_PTRACE_MEMORY_PIECE_H_
#define HINDSIGHT_RECORDER_PTRACE_MEMORY_PIECE_H_

#include <cstdint>

namespace hindsight {

struct MemoryPiece {
  uint64_t address = 0;
  uint8_t* bytes = nullptr;
  uint64_t length = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PTRACE_MEMORY_PIECE_H_
