// Entries of /proc/PID/pagemap: what the kernel says of each page of a process
// (Documentation/admin-guide/mm/pagemap.rst).

#ifndef HINDSIGHT_RECORDER_PROCESS_PAGEMAP_H_
#define HINDSIGHT_RECORDER_PROCESS_PAGEMAP_H_

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>

#include "tracefmt/records.h"

namespace hindsight {

constexpr uint64_t kPagemapPresent = uint64_t{1} << 63;
constexpr uint64_t kPagemapSwapped = uint64_t{1} << 62;
constexpr uint64_t kPagemapFile = uint64_t{1} << 61;       // a file's, or shared
constexpr uint64_t kPagemapExclusive = uint64_t{1} << 56;  // no other process has it
// Which page of the machine's memory it is; 0 for who may not know (CAP_SYS_ADMIN).
constexpr uint64_t kPagemapFrame = (uint64_t{1} << 55) - 1;

// How many of the next `count` entries from `start` on were read; 0 if none can be.
inline uint64_t ReadPagemap(int pagemap, uint64_t start, uint64_t* entries, uint64_t count) {
  const ssize_t got = pread(pagemap, entries, count * sizeof(uint64_t),
                            static_cast<off_t>(start / kPageBytes * sizeof(uint64_t)));
  return got < 0 ? 0 : static_cast<uint64_t>(got) / sizeof(uint64_t);
}

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PROCESS_PAGEMAP_H_
