#include "recorder/ptrace/wait_status.h"

#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

namespace hindsight {

WaitStatus WaitStatus::Decode(int raw) {
  WaitStatus status;
  status.raw = raw;
  if (!WIFSTOPPED(raw)) return status;
  status.signal = WSTOPSIG(raw);
  status.event = raw >> 16;
  if (status.event != 0) {
    status.kind = Kind::kEvent;
  } else {
    status.kind = status.signal == (SIGTRAP | 0x80) ? Kind::kSyscall : Kind::kSignal;
  }
  return status;
}

bool WaitStatus::is_event_stop() const {
  return kind == Kind::kEvent && event == PTRACE_EVENT_STOP;
}

int WaitStatus::group_stop() const { return is_event_stop() && signal != SIGTRAP ? signal : 0; }

bool WaitStatus::is_exec() const { return kind == Kind::kEvent && event == PTRACE_EVENT_EXEC; }

std::optional<WaitStatus> WaitForThread(pid_t thread) {
  int raw = 0;
  while (waitpid(thread, &raw, __WALL) < 0) {
    if (errno != EINTR) return std::nullopt;
  }
  return WaitStatus::Decode(raw);
}

pid_t TaskOfEvent(pid_t thread) {
  unsigned long message = 0;
  ptrace(PTRACE_GETEVENTMSG, thread, nullptr, &message);
  return static_cast<pid_t>(message);
}

}  // namespace hindsight
