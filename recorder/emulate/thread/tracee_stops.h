// The ptrace stops of one recorded thread. A stop comes from whoever calls waitpid for all threads
// (Report), from polling while the thread is busy (Await), or from waiting (ResumeAndWait).
//
// Borrows the thread. Not copyable. The host thread that traces.

#ifndef HINDSIGHT_RECORDER_EMULATE_THREAD_TRACEE_STOPS_H_
#define HINDSIGHT_RECORDER_EMULATE_THREAD_TRACEE_STOPS_H_

#include <chrono>
#include <functional>
#include <optional>

#include "absl/functional/function_ref.h"
#include "recorder/process/scheduling.h"
#include "recorder/ptrace/tracee.h"

namespace hindsight {

class TraceeStops {
 public:
  TraceeStops(Tracee* tracee, const ThreadScheduling* scheduling);
  TraceeStops(const TraceeStops&) = delete;
  TraceeStops& operator=(const TraceeStops&) = delete;

  // It has stopped, as waitpid reported.
  void Report(int status) { reported_ = status; }
  // A stop was reported and has not been taken.
  bool reported() const { return reported_.has_value(); }
  // That stop.
  std::optional<TraceeStop> TakeReported();

  // Job control has stopped it: it does not stop again until it is continued.
  void Listen();
  // Its next stop; nullopt if it sleeps, or `keep_waiting` returns false. `on_tick` is called now
  // and then. `acts`: whether others may see what its system call does before that returns. They
  // should not go on meanwhile, so a wait for a disk, a quarter of a second at most, is no sleep.
  std::optional<TraceeStop> Await(absl::FunctionRef<bool()> keep_waiting,
                                  absl::FunctionRef<void()> on_tick,
                                  absl::FunctionRef<bool()> acts);
  // For what takes no time in the process. If the thread is gone, the stop says so.
  TraceeStop ResumeAndWait(ResumeHow how, int signal, const std::function<void()>& on_tick);
  // Brings it, in a system call, to a stop in which no signal is about to be delivered. False if it
  // has ended.
  bool StopInCall();

 private:
  Tracee* const tracee_;
  const ThreadScheduling* const scheduling_;
  std::chrono::nanoseconds patience_;
  std::optional<int> reported_;
  bool listening_ = false;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_THREAD_TRACEE_STOPS_H_
