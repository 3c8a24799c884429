// Runs a traced process natively until one of its threads reaches a given place.
//
//   Start() --> running --> (OnStop says that something happened)
//                 ^  |
//                 |  +-- kReached, kStopped: all threads stopped, the breakpoints taken out
//   Start() ------+  +-- kExec: one thread, stopped, no breakpoints
//                    +-- kForked: the process runs on; the child is stopped
//                    +-- kExited: gone
//
// Places are marked by int3 instructions while the process runs. Signals, stops by job control, new
// threads and system calls go on as they would without us. A child that shares the process's memory
// (vfork, posix_spawn) is run as well, and reported once it has memory of its own.
//
// Not copyable, not movable. One host thread, the tracer of all threads, with (at least) the
// options TRACECLONE, TRACEFORK, TRACEVFORK, TRACEEXEC and TRACESYSGOOD.

#ifndef HINDSIGHT_RECORDER_PTRACE_BREAKPOINT_RUN_H_
#define HINDSIGHT_RECORDER_PTRACE_BREAKPOINT_RUN_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "recorder/ptrace/breakpoint_guard.h"
#include "recorder/ptrace/thread_stop.h"

namespace hindsight {

enum class NativeEventKind : uint8_t {
  kReached,  // `thread` is at `address`; all threads are stopped
  kStopped,  // all threads are stopped, as RequestStop asked
  // Another program runs now: `thread` (the process's first) is before its first instruction,
  // all others are gone. Start() runs on.
  kExec,
  // `child` has been made, has no breakpoint in its memory, and is stopped: at its first return to
  // user mode, or, if it had its parent's memory till now (`after_exec`), before the first
  // instruction of another program. It is traced, and its tracer's business from now on.
  kForked,
  kExited,  // the process has ended; `wait_status` is that of its first thread
};

struct NativeEvent {
  NativeEventKind kind = NativeEventKind::kExited;
  pid_t thread = 0;
  uint64_t address = 0;
  pid_t child = 0;
  bool after_exec = false;
  int wait_status = 0;
};

class BreakpointRun {
 public:
  struct Places {
    std::vector<uint64_t> stops;  // where to stop
    // Where to look for places again: the dynamic linker passes here when it has mapped something
    // (_dl_debug_state).
    std::vector<uint64_t> hooks;
  };
  // Those that are mapped now. Asked at Start, and whenever a hook is passed.
  using FindPlaces = std::function<Places()>;

  // `guarded`: the process outlives its tracer (BreakpointGuard).
  BreakpointRun(pid_t process, FindPlaces find_places, bool guarded);
  BreakpointRun(const BreakpointRun&) = delete;
  BreakpointRun& operator=(const BreakpointRun&) = delete;

  // Runs the process. A thread that is at one of the places counts as reaching it, unless
  // `leave_places`: then it is moved on first.
  // Requires: `threads` are all of its threads, stopped, with no signal about to be delivered.
  void Start(absl::Span<const StoppedThread> threads, bool leave_places = false);

  // Whether a stop of `thread` is for OnStop: one of the process's threads, or a child of it that
  // is not recorded otherwise.
  bool Owns(pid_t thread) const;
  // What waitpid reported of a thread that is owned.
  std::optional<NativeEvent> OnStop(pid_t thread, int wait_status);
  // Stops all threads; kStopped follows, unless something else comes first.
  void RequestStop();
  // To be called now and then while a stop is awaited: waitpid does not report a first thread that
  // ends before the others.
  std::optional<NativeEvent> OnTick();

  // OnStop for all that waitpid reports of children of this process, until something happens.
  // `stop_now`, asked whenever a signal interrupts the waiting, makes it kStopped.
  // Requires: no other traced thread stops meanwhile.
  absl::StatusOr<NativeEvent> Wait(const std::function<bool()>& stop_now);

  // The process's threads as they are now, the first one first; after kReached and kStopped all of
  // them are stopped.
  std::vector<StoppedThread> threads() const;

 private:
  struct Thread {
    bool stopped = false;
    int group_stop = 0;
    bool guest = false;  // of a child that shares the process's memory
  };
  enum class Mode : uint8_t { kIdle, kRunning, kStopping };

  // Breakpoints.
  pid_t LiveThread() const;
  void Insert(absl::Span<const uint64_t> addresses);
  void Insert(const Places& places);
  void TakeOut(uint64_t address, pid_t process);
  void TakeOutAll(pid_t process);
  void ForgetAll();
  absl::Status Guard(const ProcMemFile& memory, uint64_t address, uint8_t byte);
  void WarnUnguarded(const absl::Status& status);
  void StepOver(pid_t thread);

  // Threads.
  void Continue(pid_t thread, int signal);
  void ContinueAll();
  void BeginStopping(std::optional<NativeEvent> outcome);
  std::optional<NativeEvent> FinishStopping();
  void LetGuestsGo();

  // What happens to them.
  std::optional<NativeEvent> OnEnd(pid_t thread, int wait_status);
  std::optional<NativeEvent> OnEventStop(pid_t thread, int group_stop);
  std::optional<NativeEvent> OnNewTask(pid_t thread, bool vfork);
  std::optional<NativeEvent> OnExec(pid_t thread);
  void OnSignal(pid_t thread, int signal);

  const pid_t process_;
  const FindPlaces find_places_;
  bool guarded_;
  Mode mode_ = Mode::kIdle;
  std::map<pid_t, Thread> threads_;
  std::map<uint64_t, uint8_t> inserted_;    // address -> the byte that belongs there
  std::unique_ptr<BreakpointGuard> guard_;  // of inserted_, if there are any
  std::set<uint64_t> hooks_;
  std::set<pid_t> early_;  // children whose first stop came before their parent's event
  // What to report once all threads are stopped; none: a hook was passed by `passing_`.
  std::optional<NativeEvent> outcome_;
  pid_t passing_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PTRACE_BREAKPOINT_RUN_H_
