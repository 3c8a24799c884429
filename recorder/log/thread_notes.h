// Events of one recorded thread, the same whichever engine executes it: when it started and ended,
// its name, when and on which processor it ran, its system calls and signals, and when its memory
// became unknown.
//
// Counts are the thread's states. Events that explain a record are logged before it: a recorder
// that dies between the two leaves an event too many, which readers recognize by the last state,
// and no record without an explanation.
//
// Borrows the log and the scheduling. Not copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_LOG_THREAD_NOTES_H_
#define HINDSIGHT_RECORDER_LOG_THREAD_NOTES_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "recorder/log/thread_log.h"
#include "recorder/process/scheduling.h"

namespace hindsight {

class ThreadNotes {
 public:
  ThreadNotes(ThreadLog* log, const ThreadScheduling* scheduling)
      : log_(log), scheduling_(scheduling) {}
  ThreadNotes(const ThreadNotes&) = delete;
  ThreadNotes& operator=(const ThreadNotes&) = delete;

  // Its first state is `count`. `maker`: the thread that made it, 0 if none is recorded.
  // `orderable` false: nothing can have happened before.
  void Start(uint64_t count, int32_t maker, bool orderable);
  // It was killed before it ran.
  void StartKilled();
  // Once: does nothing if it was logged before.
  void Exit(uint64_t count);
  // The thread has taken the place, and the id, of one that had ended.
  void ForgetExit() { exit_logged_ = false; }

  // It runs from now on. `last_slice_end_ns`: when the slice before ended.
  void Slice(uint64_t count, uint64_t now_ns, uint64_t last_slice_end_ns);
  // Its name may have changed.
  void Name(uint64_t count);
  // From here on it is not recorded.
  void Gap(uint64_t count, const std::string& reason);
  // `why` may have changed memory anywhere.
  void MemoryUnknown(uint64_t count, const std::string& why);

  // The event of the transition from state `count` that is logged next. Returns its sequence
  // number: `sequence`, or the next one if that is 0. `arguments`: six.
  uint64_t SystemCall(uint64_t count, int64_t number, absl::Span<const uint64_t> arguments,
                      int64_t result, uint64_t sequence = 0);
  uint64_t Exec(uint64_t count, int64_t number, absl::Span<const uint64_t> arguments,
                const std::string& program, uint64_t sequence = 0);
  uint64_t Signal(uint64_t count, int signal, const std::string& siginfo);
  // In state `count`, system call `number` with these clone flags has made `process`.
  void Fork(uint64_t count, int64_t number, ForkKind kind, uint64_t clone_flags, pid_t process,
            bool recorded);

 private:
  static constexpr uint64_t kUnknownCpu = ~uint64_t{0};

  std::string CurrentName() const;

  ThreadLog* const log_;
  const ThreadScheduling* const scheduling_;
  uint64_t scheduling_read_ns_ = 0;  // 0: never
  uint64_t cpu_ = kUnknownCpu;       // of the host, that it ran on last
  std::string name_;
  bool exit_logged_ = false;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_LOG_THREAD_NOTES_H_
