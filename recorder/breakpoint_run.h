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
// (vfork, posix_spawn) is run as well, and told of once it has memory of its own.
//
// Not copyable, not movable. One host thread, the tracer of all threads, with (at least) the
// options TRACECLONE, TRACEFORK, TRACEVFORK, TRACEEXEC and TRACESYSGOOD.

#ifndef HINDSIGHT_RECORDER_BREAKPOINT_RUN_H_
#define HINDSIGHT_RECORDER_BREAKPOINT_RUN_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace hindsight {

enum class NativeEventKind : uint8_t {
  kReached,  // `thread` stands at `address`; all threads are stopped
  kStopped,  // all threads are stopped, as RequestStop asked
  // Another program runs now: `thread` (the process's first) stands before its first instruction,
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

struct NativeThread {
  pid_t thread = 0;
  int group_stop = 0;  // not 0: stopped by job control
};

class BreakpointRun {
 public:
  // Where to stop, as far as it is mapped now. Asked at Start, and again whenever the dynamic
  // linker has mapped something.
  using Places = std::function<std::vector<uint64_t>()>;

  BreakpointRun(pid_t process, Places places);
  ~BreakpointRun();
  BreakpointRun(const BreakpointRun&) = delete;
  BreakpointRun& operator=(const BreakpointRun&) = delete;

  // Runs the process. A thread that stands at one of the places counts as reaching it, unless
  // `leave_places`: then it is moved on first.
  // Requires: `threads` are all of its threads, stopped, with no signal about to be delivered.
  absl::Status Start(absl::Span<const NativeThread> threads, bool leave_places = false);

  // Whether a stop of `thread` is for OnStop: one of the process's threads, or of a child that has
  // its memory.
  bool Owns(pid_t thread) const;
  // What waitpid said of a thread that is owned.
  std::optional<NativeEvent> OnStop(pid_t thread, int wait_status);
  // Stops all threads; kStopped follows, unless something else comes first.
  void RequestStop();

  // OnStop for whatever waitpid says of any child of this process, until something happens or
  // `stop_now` (asked whenever a signal interrupts the waiting) says that it should: then kStopped.
  // Requires: no other traced thread stops meanwhile.
  absl::StatusOr<NativeEvent> Wait(const std::function<bool()>& stop_now);

  // The process's threads as they are now. After kReached and kStopped, all of them stopped.
  std::vector<NativeThread> threads() const;

 private:
  struct Thread;
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_BREAKPOINT_RUN_H_
