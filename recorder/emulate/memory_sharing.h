// Who may write to the memory of a recorded process besides the thread whose turn it is and the
// system calls that it makes.
//
//   threads of the process      in their turns
//   processes it shares with    in their turns, and while they are in system calls; it lends its
//                               memory to one that runs at the same time, and borrows that of its
//                               maker, which waits (vfork)
//   the kernel                  at any time: io_uring, AIO and the like; as a thread ends
//   others                      at any time, unless outputs are trusted (output_trust.h)
//
// Copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_EMULATE_MEMORY_SHARING_H_
#define HINDSIGHT_RECORDER_EMULATE_MEMORY_SHARING_H_

#include <utility>
#include <vector>

#include "recorder/syscalls/syscall_outputs.h"

namespace hindsight {

class MemorySharing {
 public:
  // There has been more than one thread at some time.
  bool many_threads() const { return many_threads_; }
  void NoteManyThreads() { many_threads_ = true; }

  // With the process that it was made by, or that it made.
  bool with_process() const { return with_process_; }
  void NoteSharedWithProcess() { with_process_ = true; }
  bool lends() const { return lends_; }
  void NoteLent() { lends_ = true; }
  bool borrows() const { return borrows_; }
  void NoteBorrowed() { borrows_ = true; }
  // Whether it borrows memory; does not from now on.
  bool TakeBorrowed() { return std::exchange(borrows_, false); }

  // The kernel may write at any time.
  bool asynchronous() const { return asynchronous_; }
  void NoteAsynchronous() { asynchronous_ = true; }
  // What the kernel has stored for threads that have ended, or others in system calls of theirs,
  // since it was taken the last time.
  void NoteWritten(const MemoryRange& range) { written_.push_back(range); }
  bool has_written() const { return !written_.empty(); }
  std::vector<MemoryRange> TakeWritten() { return std::exchange(written_, {}); }

  // Another thread or process may have written since a thread's last turn.
  bool shared() const { return many_threads_ || with_process_; }
  // Others than its threads may write at any time.
  bool written_elsewhere() const { return asynchronous_ || lends_; }
  // No other process has any of it.
  bool own() const { return !with_process_ && !lends_ && !borrows_; }
  // Changed only by its one thread and by system calls, in the ranges that these report. Never
  // again after StopTrusting.
  bool trusted() const { return trusted_ && !shared() && !written_elsewhere() && !borrows_; }
  void StopTrusting() { trusted_ = false; }

  // The process has executed a program: its memory is its own.
  void OnExec() { asynchronous_ = with_process_ = lends_ = false; }

 private:
  bool many_threads_ = false;
  bool with_process_ = false;
  bool lends_ = false;
  bool borrows_ = false;
  bool asynchronous_ = false;
  bool trusted_ = true;
  std::vector<MemoryRange> written_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_MEMORY_SHARING_H_
