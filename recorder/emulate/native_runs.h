// Processes of a recording that run natively: nothing of them is recorded yet, or their recording
// pauses.
//
//   Run --> runs natively --> its recording begins or goes on: Client::OnReached
//               |   ^    +--> it ends: Client::OnEnded
//               +---+ executes another program, or makes a process, which runs natively as well
//
// Not copyable, not movable. One host thread, the tracer of all of them.

#ifndef HINDSIGHT_RECORDER_EMULATE_NATIVE_RUNS_H_
#define HINDSIGHT_RECORDER_EMULATE_NATIVE_RUNS_H_

#include <sys/types.h>

#include <list>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "recorder/ptrace/breakpoint_run.h"
#include "recorder/session/options.h"
#include "recorder/session/recorded_part.h"

namespace hindsight {

class NativeRuns {
 public:
  class Client {
   public:
    virtual ~Client() = default;
    // The process, all of whose `threads` are stopped, is recorded from here on, and not run
    // natively any more.
    virtual void OnReached(pid_t process, absl::Span<const StoppedThread> threads) = 0;
    virtual void OnEnded(pid_t process, int wait_status) = 0;
    // A task runs from now on that is not recorded.
    virtual void OnUnrecorded() = 0;
  };

  // All are borrowed.
  NativeRuns(const RecordOptions& options, RecordedPart* part, Client* client)
      : options_(options), part_(part), client_(client) {}
  NativeRuns(const NativeRuns&) = delete;
  NativeRuns& operator=(const NativeRuns&) = delete;

  // Runs `process`, all of whose `threads` are stopped.
  void Run(pid_t process, absl::Span<const StoppedThread> threads);
  bool empty() const { return runs_.empty(); }
  std::vector<pid_t> processes() const;

  // What waitpid reports of a thread. False if it belongs to none of these processes.
  bool OnStatus(pid_t thread, int wait_status);
  // To be called now and then while stops are awaited (BreakpointRun::OnTick).
  void Tick();

  // To let them run on alone: asks all to stop; once they have, removes the breakpoints.
  void RequestStops();
  bool all_stopped() const;
  void Detach();
  // They have vanished.
  void Clear() { runs_.clear(); }

 private:
  struct NativeRun {
    pid_t process = 0;
    std::unique_ptr<BreakpointRun> run;
    bool stopped = false;
  };
  using Iterator = std::list<NativeRun>::iterator;

  void OnEvent(Iterator native, const NativeEvent& event);
  void Reach(Iterator native);
  void OnFork(pid_t parent, pid_t child, bool after_exec);

  const RecordOptions& options_;
  RecordedPart* const part_;
  Client* const client_;
  std::list<NativeRun> runs_;
};

// Lets a stopped process run on alone.
void DetachStopped(pid_t process, absl::Span<const StoppedThread> threads);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_NATIVE_RUNS_H_
