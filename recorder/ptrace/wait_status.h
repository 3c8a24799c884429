// What waitpid reports of a traced thread, decoded in one place.
//
//   exited, killed                    kEnded
//   bits from 16 on                   kEvent      PTRACE_EVENT_...
//   SIGTRAP with bit 7 set            kSyscall    PTRACE_O_TRACESYSGOOD: entry or exit
//   any other signal                  kSignal     about to be delivered
//
// Requires: the thread is traced with PTRACE_O_TRACESYSGOOD, or seized.

#ifndef HINDSIGHT_RECORDER_PTRACE_WAIT_STATUS_H_
#define HINDSIGHT_RECORDER_PTRACE_WAIT_STATUS_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace hindsight {

struct WaitStatus {
  enum class Kind : uint8_t { kEnded, kEvent, kSyscall, kSignal };

  Kind kind = Kind::kEnded;
  int event = 0;  // kEvent: PTRACE_EVENT_...
  // kSignal: the one to be delivered; PTRACE_EVENT_STOP: SIGTRAP, or that of job control.
  int signal = 0;
  int raw = 0;  // as waitpid reported it

  static WaitStatus Decode(int raw);

  bool stopped() const { return kind != Kind::kEnded; }
  // PTRACE_EVENT_STOP; by job control if `group_stop()` is not 0, with that signal.
  bool is_event_stop() const;
  int group_stop() const;
  // PTRACE_EVENT_EXEC.
  bool is_exec() const;
  // What the thread must be continued with so that nothing is lost: the signal, if it is one.
  int signal_to_deliver() const { return kind == Kind::kSignal ? signal : 0; }
};

// Waits for the next stop or the end of `thread`; nullopt: it is no child or traced thread of ours
// any more.
std::optional<WaitStatus> WaitForThread(pid_t thread);

// Of a thread stopped in a ptrace event: the new task (fork, vfork, clone), or the id that the
// thread had before (exec). 0 if it is gone.
pid_t TaskOfEvent(pid_t thread);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PTRACE_WAIT_STATUS_H_
