// What may stop a run along the timeline, and what did.

#ifndef HINDSIGHT_KEYFRAMES_TIMELINE_RUN_REQUEST_H_
#define HINDSIGHT_KEYFRAMES_TIMELINE_RUN_REQUEST_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "tracefmt/records.h"

namespace hindsight {

enum class RunDirection : uint8_t { kForward, kBackward };

// Stops in the states whose next instruction is at `address`. A state in which a signal is
// delivered next does not count: the instruction is not executed from there.
struct PcStop {
  uint64_t address = 0;
  int32_t thread = 0;  // only this thread stops here; 0: any
  // Called with the timeline at the moment, and the thread that got there; true: stop. Unset:
  // always. It may use the timeline's reading calls (registers, memory, position) and nothing else.
  std::function<bool(int32_t thread)> condition;
};

// Stops where a transition changes a byte of [address, address + length) (on_write; stores of the
// same value do not count, changes made by system calls do) or an instruction reads one (on_read).
// A change is reported of the thread that made it, not of others when they come to see it.
struct DataStop {
  uint64_t address = 0;
  uint64_t length = 0;
  bool on_write = true;
  bool on_read = false;
  int32_t thread = 0;  // only accesses of this thread; 0: any
  // As PcStop::condition; called at the moment that would be reported.
  std::function<bool(int32_t thread)> condition;
};

// All runs also stop at the ends of the recording.
struct RunRequest {
  RunDirection direction = RunDirection::kForward;
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
  std::vector<PcStop> breakpoints;
  std::vector<DataStop> watchpoints;
  // Forward only: do not report a breakpoint of the current thread at the moment the run starts at.
  // (gdb steps off its breakpoints itself, so the server leaves it off.)
  bool leave_first_breakpoint = false;
  // True: stop in the state before this signal is delivered. Unset: stop for every signal.
  // The moment the run starts at never counts.
  std::function<bool(int signal)> stop_for_signal;
  // True: stop at this system call, before (kSyscallEntry) and behind it (kSyscallReturn).
  // Unset: system calls do not stop.
  std::function<bool(int64_t number)> stop_for_syscall;
  // Stop where another program is executed: forward in the state behind, backward in the one
  // before.
  bool stop_for_exec = false;
  // Stop where a process is made: forward in the state behind the call, backward at the call.
  bool stop_for_fork = false;
  // Stop where a thread starts (in its first state) and where it ends (in its last).
  bool stop_for_threads = false;
  // Polled at least every 50 ms; borrowed, may be null. Never cleared here.
  const std::atomic<bool>* interrupt = nullptr;
};

enum class RunStopKind : uint8_t {
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
  kSyscallReturn,  // behind it
  kExec,           // forward: the program's first state; backward: the last of the one before
  kFork,           // forward: behind the call; backward: at it
  kThreadStart,    // in the new thread's first state, both directions
  kThreadExit,     // in the thread's last state, both directions
};

// Watched memory was not known between two moments on the way to a stop: it may have changed there
// without anybody seeing it.
struct UnknownMemory {
  uint64_t address = 0;
  int32_t thread = 0;  // that did not know it
  uint64_t from = 0;   // moments
  uint64_t to = 0;
};

struct RunStop {
  RunStopKind kind = RunStopKind::kStep;
  int32_t thread = 0;     // that stopped
  size_t index = 0;       // kBreakpoint, kWatchpoint: which of the request's
  uint64_t address = 0;   // kWatchpoint: the location accessed where known, else the start
  bool was_read = false;  // kWatchpoint: a read, not a change
  int signal = 0;         // kSignal
  int64_t syscall = -1;   // kSyscallEntry, kSyscallReturn
  int32_t child = 0;      // kFork: the new process
  ForkKind fork = ForkKind::kFork;
  std::vector<UnknownMemory> unknown;  // of a run with watchpoints: newest first, not all if many
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_TIMELINE_RUN_REQUEST_H_
