// What may stop a run along the timeline, and what did: the words in which a debug session, its
// target and the timeline speak of runs. (A Cpu's RunOptions are another matter: how many
// instructions it executes at once, without knowing of records, threads or directions.)

#ifndef HINDSIGHT_KEYFRAMES_TIMELINE_RUN_REQUEST_H_
#define HINDSIGHT_KEYFRAMES_TIMELINE_RUN_REQUEST_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace hindsight {

enum class Direction : uint8_t { kForward, kBackward };

// Called where `thread` hits, with the timeline at that moment; true: stop. Unset: always stop. May
// use reading calls (registers, memory, position) and nothing else.
using StopCondition = std::function<bool(int32_t thread)>;

// Stops in the states whose next instruction is at `address`. A state in which a signal is
// delivered next does not count: the instruction is not executed from there.
struct BreakpointSpec {
  uint64_t address = 0;
  StopCondition condition;
  int32_t thread = 0;  // only this thread stops here; 0: any
};

enum class WatchKind : uint8_t {
  kWrite,   // a byte changes: stores of the same value do not count, changes by system calls do
  kRead,    // an instruction reads a byte
  kAccess,  // an instruction reads a byte, or stores one, the same or another; changes by system
            // calls
};

// Stops where a transition touches [address, address + length). A change is reported of the thread
// that made it, not of others when they come to see it.
struct WatchpointSpec {
  uint64_t address = 0;
  uint64_t length = 0;
  WatchKind kind = WatchKind::kWrite;
  StopCondition condition;  // asked at the moment that would be reported
  int32_t thread = 0;       // only accesses of this thread; 0: any

  bool on_write() const { return kind != WatchKind::kRead; }
  bool on_read() const { return kind != WatchKind::kWrite; }
  // Whether stores count that change nothing.
  bool on_store() const { return kind == WatchKind::kAccess; }
};

// All runs also stop at the ends of the recording.
struct RunRequest {
  Direction direction = Direction::kForward;
  // Whose steps are counted (step); 0: the current thread. Others move along the timeline with it.
  int32_t thread = 0;
  // Only stops in `thread` count. The others move on.
  bool only_thread = false;
  // One state of `thread` only (the stops below are still reported where they hold in the state
  // reached, except that arriving on a breakpoint is reported as kStep).
  bool step = false;
  // With `step`, forward: go on while pc is in [range_start, range_end). Equal: no range.
  // Backward: the same, so that a caller may walk a line backward.
  uint64_t range_start = 0, range_end = 0;
  std::vector<BreakpointSpec> breakpoints;
  std::vector<WatchpointSpec> watchpoints;
  // Forward only: do not report a breakpoint of the current thread at the moment the run starts at.
  // (gdb steps off its breakpoints itself, so the server leaves it off.)
  bool leave_first_breakpoint = false;
  // True: stop in the state before this signal is delivered. Unset: stop for every signal.
  // The moment the run starts at never counts.
  std::function<bool(int signal)> stop_for_signal;
  // True: stop at this system call, before (kSyscallEntry) and after it (kSyscallReturn).
  // Unset: system calls do not stop.
  std::function<bool(int64_t number)> stop_for_syscall;
  // Stop where another program is executed: forward in the state after, backward in the one
  // before.
  bool stop_for_exec = false;
  // Stop where a process is made: forward in the state after the call, backward at the call.
  bool stop_for_fork = false;
  // Stop where a thread starts (in its first state) and where it ends (in its last).
  bool stop_for_threads = false;
  // Polled at least every 50 ms; borrowed, may be null. Never cleared here.
  const std::atomic<bool>* interrupt = nullptr;

  bool interrupted() const {
    return interrupt != nullptr && interrupt->load(std::memory_order_relaxed);
  }
};

enum class StopKind : uint8_t {
  kStep,           // the step or range ended
  kBreakpoint,     // pc is at a breakpoint, not executed
  kWatchpoint,     // forward: in the state after; backward: in the state before, pc on the
                   // instruction that accesses, old value in memory
  kSignal,         // in the state before the delivery, both directions
  kBegin,          // the recording begins here
  kEnd,            // the recording ends here
  kInterrupted,    // forward: wherever it got. Backward: as far back as was searched; no stop lies
                   // between here and the state the run started in
  kSyscallEntry,   // at the system call instruction
  kSyscallReturn,  // after it
  kExec,           // forward: the program's first state; backward: the last of the one before
  kFork,           // `child` was made: forward after the call; backward at it
  kVfork,          // the same, and the child used its parent's memory meanwhile
  kThreadStart,    // in the new thread's first state, both directions
  kThreadExit,     // in the thread's last state, both directions
};

// Watched memory was not known between two moments on the way to a stop: it may have changed there
// unnoticed.
struct UnknownMemory {
  uint64_t address = 0;
  int32_t thread = 0;  // that did not know it
  uint64_t from = 0;   // moments
  uint64_t to = 0;
};

struct RunStop {
  StopKind kind = StopKind::kStep;
  int32_t thread = 0;    // that stopped
  int signal = 0;        // kSignal
  uint64_t address = 0;  // kWatchpoint: the location accessed where known, else the start
  size_t index = 0;      // kBreakpoint, kWatchpoint: which of the request's
  WatchKind watch = WatchKind::kWrite;  // kWatchpoint: the kind of that one
  int64_t syscall = -1;                 // kSyscallEntry, kSyscallReturn
  int32_t child = 0;                    // kFork, kVfork: the new process
  std::vector<UnknownMemory> unknown;   // of a run with watchpoints: newest first, the latest few
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_TIMELINE_RUN_REQUEST_H_
