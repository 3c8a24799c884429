// All threads of a process stopped at once, for an instant, and let go again. Nobody notices: no
// system call fails that would not have, no signal is lost, job control stays what it was.
//
//   Make: seize all --> ask all to stop --> wait until all have, and there is no new one
//   Release (or the destructor): detach all
//
// Not copyable. One host thread: the one that made it (a rule of ptrace).

#ifndef HINDSIGHT_RECORDER_PTRACE_WHOLE_PROCESS_STOP_H_
#define HINDSIGHT_RECORDER_PTRACE_WHOLE_PROCESS_STOP_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "isa/registers.h"
#include "recorder/ptrace/thread_stop.h"
#include "recorder/ptrace/whole/call_site.h"
#include "recorder/ptrace/whole/disturbed_calls.h"
#include "recorder/ptrace/whole/precedence.h"

namespace hindsight {

// What a stopped thread is doing.
struct ThreadMoment {
  pid_t thread = 0;
  std::string name;
  // As the kernel has them: a thread that waits in a system call is after the instruction, and rax
  // is -512 to -516, kernel-internal codes that say how the call is restarted.
  RegisterFile registers;
  int64_t system_call = -1;  // the one that it is in; -1: none
};

// Threads that were seized and did not stop in time. They come to their stop later and would stay
// there. Not copyable. The host thread that seized them.
class Stragglers {
 public:
  Stragglers() = default;
  Stragglers(const Stragglers&) = delete;
  Stragglers& operator=(const Stragglers&) = delete;

  void Add(pid_t thread) { threads_.push_back(thread); }
  // Detaches those that have stopped by now; to be called now and then. False: some have not.
  bool LetGo();

 private:
  std::vector<pid_t> threads_;
};

// Ends the calls of `calls` whose time is over: stops their threads for an instant, one by one,
// none of which is traced. Threads that do not stop at once are in `stragglers` then.
void EndDueCalls(pid_t process, DisturbedCalls* calls, Stragglers* stragglers);

class ProcessStop {
 public:
  // Errors, with the process running on as before: kNotFound (it is gone), kPermissionDenied,
  // kFailedPrecondition (traced by another), kUnavailable (a thread does not stop within
  // `patience`: it waits for a child made by vfork, or for a device; it is in `stragglers` then).
  // `calls`: of all stops of the process; null: calls that are disturbed wait their whole timeouts
  // again. Borrowed.
  static absl::StatusOr<std::unique_ptr<ProcessStop>> Make(pid_t process,
                                                           std::chrono::milliseconds patience,
                                                           Stragglers* stragglers,
                                                           DisturbedCalls* calls = nullptr);
  // Of threads that are traced anyway, with these ptrace options, and stand still already: they
  // stay so. The moments: as of skew_ns(), by CLOCK_MONOTONIC. `calls`: as of Make.
  static std::unique_ptr<ProcessStop> Adopt(pid_t process, std::vector<StoppedThread> threads,
                                            uint64_t first_ns, uint64_t skew_ns, uintptr_t options,
                                            DisturbedCalls* calls);
  ~ProcessStop();
  ProcessStop(const ProcessStop&) = delete;
  ProcessStop& operator=(const ProcessStop&) = delete;

  pid_t process() const { return process_; }
  // What its threads are traced with when nothing is done to them.
  uintptr_t options() const { return options_.value_or(0); }
  // Where its threads can be made to make calls; no instruction: nowhere.
  const CallSite& call_site() const { return call_site_; }
  // The first one, if it lives, comes first.
  const std::vector<StoppedThread>& threads() const { return threads_; }
  // From the moment at which the first thread may have stopped to that at which the last one was
  // seen stopped: an upper bound of the distance between any two.
  uint64_t skew_ns() const { return skew_ns_; }
  // How long the process has stood still by now, or did until Release.
  uint64_t stood_ns() const;

  // Of the threads that still live.
  std::vector<ThreadMoment> Read() const;

  void Release();

 private:
  ProcessStop(pid_t process, DisturbedCalls* calls)
      : process_(process), calls_(calls), call_site_(FindCallSite(process).value_or(CallSite())) {}
  absl::Status StopAll(std::chrono::milliseconds patience, Stragglers* stragglers);
  absl::StatusOr<bool> SeizeNew(std::set<pid_t>* known, std::vector<pid_t>* asked);
  bool Await(pid_t thread, std::chrono::milliseconds patience);

  const pid_t process_;
  DisturbedCalls* const calls_;
  CallSite call_site_;
  std::optional<uintptr_t> options_;      // of Adopt
  std::optional<Precedence> precedence_;  // of the calling thread
  std::vector<StoppedThread> threads_;
  uint64_t first_ns_ = 0;  // when the first thread was asked to stop; 0: none has been
  uint64_t skew_ns_ = 0;
  uint64_t stood_ns_ = 0;
  bool released_ = false;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PTRACE_WHOLE_PROCESS_STOP_H_
