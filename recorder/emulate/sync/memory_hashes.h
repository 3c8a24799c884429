// Logs hashes of a thread's memory, by which verification checks that replay has the same bytes:
//   - of what system calls send: the bytes in the process, which the kernel is about to read;
//   - of pages that the thread has written, a few now and then: the bytes in its view.
// Of one call a limited amount is hashed, so that bulk data stays cheap.
//
// Borrows everything it is made of. Not copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_EMULATE_SYNC_MEMORY_HASHES_H_
#define HINDSIGHT_RECORDER_EMULATE_SYNC_MEMORY_HASHES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "recorder/emulate/pager/process_pager.h"
#include "recorder/emulate/thread/sent_memory.h"
#include "recorder/log/thread_log.h"
#include "recorder/ptrace/tracee.h"

namespace hindsight {

class MemoryHashes {
 public:
  MemoryHashes(const Tracee* tracee, ProcessPager* pager, ThreadLog* log)
      : tracee_(tracee), pager_(pager), log_(log) {}
  MemoryHashes(const MemoryHashes&) = delete;
  MemoryHashes& operator=(const MemoryHashes&) = delete;

  // What a system call sends that the thread is about to make in state `count`, a sync point.
  // `others`: other threads and processes may have changed memory, through the kernel, since the
  // view was compared last. Then the view is brought up to date where the call reads it.
  void LogSent(int64_t number, const uint64_t* arguments, uint64_t count, bool others);
  // Of some of the pages written, in state `count`, a sync point.
  void LogSomePages(size_t pages, uint64_t count);

 private:
  void LogRange(const MemoryRange& range, uint64_t count, bool others);
  void LogPart(const MemoryRange& part, bool known, uint64_t count, bool others);

  const Tracee* const tracee_;
  ProcessPager* const pager_;
  ThreadLog* const log_;
  uint64_t calls_ = 0;
  std::vector<uint8_t> in_process_, in_view_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_SYNC_MEMORY_HASHES_H_
