// Names of signals; which ones a thread has pending, blocks and catches.

#ifndef HINDSIGHT_RECORDER_PROCESS_SIGNAL_SETS_H_
#define HINDSIGHT_RECORDER_PROCESS_SIGNAL_SETS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace hindsight {

// The signals in /proc/PID/task/TID/status: bit N - 1 for signal N.
struct SignalSets {
  bool known = false;    // false: it is gone
  uint64_t pending = 0;  // for the thread or its process
  uint64_t blocked = 0;  // at this moment, also if a system call put another mask in place
  uint64_t caught = 0;
  uint64_t ignored = 0;  // as the process has said

  // Signals that would enter a handler as soon as the thread runs.
  uint64_t about_to_be_handled() const { return pending & ~blocked & caught; }
  // Signals that come as soon as the thread runs.
  uint64_t coming() const { return pending & ~blocked; }
  // None of these does anything: they wake a thread only because it is traced.
  bool only_ignored_come() const;
};
SignalSets SignalSetsOf(pid_t process, pid_t thread);

// "SIGUSR1"; of those without a name "signal 40".
std::string SignalName(int signal);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PROCESS_SIGNAL_SETS_H_
