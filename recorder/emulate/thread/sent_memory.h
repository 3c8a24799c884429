// Which memory of the program a system call sends: the bytes of write() and its relatives.

#ifndef HINDSIGHT_RECORDER_EMULATE_THREAD_SENT_MEMORY_H_
#define HINDSIGHT_RECORDER_EMULATE_THREAD_SENT_MEMORY_H_

#include <cstdint>
#include <vector>

#include "recorder/syscalls/syscall_outputs.h"

namespace hindsight {

// The memory that call `number` with its six `arguments` sends, in order, cut off after
// `max_bytes`. Vectors and message headers are read with `read`. Empty for other calls, and where
// it is not known. No range wraps around the end of the address space.
std::vector<MemoryRange> SentMemory(int64_t number, const uint64_t* arguments, uint64_t max_bytes,
                                    const ReadMemory& read);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_THREAD_SENT_MEMORY_H_
