// A process that runs natively, all its threads traced, until a signal is about to be delivered or
// a thread arrives at a chosen instruction.
//
//   Seize --> Next: an event; its thread is held, the others run on
//             Stop: all threads stand still, no breakpoint is in memory
//             Pass: the event's thread goes on (by Resume if all stand still)
//             Resume: all go on
//   destructor: it runs on, traced no more
//
// The process notices nothing, but that it has a tracer. Signals are delivered with the information
// that they came with, system calls go on as after any stop. Children made by fork have no
// breakpoints and are not traced; one made by vfork is, as long as it has its parent's memory.
//
// Neither copyable nor movable. One host thread: the tracer. SIGCHLD says that there may be
// something for Next; the end of the process itself is left for waitpid if it is a child of this
// one.

#ifndef HINDSIGHT_RECORDER_PTRACE_WATCH_WATCHED_PROCESS_H_
#define HINDSIGHT_RECORDER_PTRACE_WATCH_WATCHED_PROCESS_H_

#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "recorder/ptrace/thread_stop.h"
#include "recorder/ptrace/wait_status.h"
#include "recorder/ptrace/watch/code_places.h"
#include "recorder/ptrace/watch/step_over.h"
#include "recorder/ptrace/whole/disturbed_calls.h"
#include "recorder/ptrace/whole/process_stop.h"

namespace hindsight {

struct WatchEvent {
  pid_t thread = 0;
  uint64_t address = 0;  // where it has arrived; else it is a signal:
  int signal = 0;
  std::string signal_info;  // siginfo_t as the kernel gave it
};

class WatchedProcess {
 public:
  struct Places {
    std::set<uint64_t> stops;  // an arrival is an event
    // Where to look for places again: the dynamic linker passes here when it has mapped something.
    std::set<uint64_t> hooks;
  };
  struct Wishes {
    std::set<int> signals;  // each delivery is an event
    // Those that are mapped now. Asked at first, at hooks, and after an exec. Null: no places.
    std::function<Places()> find_places;
    // The process has not executed its program yet: it has no places before.
    bool before_exec = false;
    // The calling thread has seized all threads, which stand in PTRACE_EVENT_STOP, or before the
    // delivery of a signal, which is delivered and no event. Those at a place have arrived there
    // before.
    bool stopped = false;
    // Of all stops of the process. Borrowed.
    DisturbedCalls* calls = nullptr;
    // Gets the threads that wait, where nothing disturbs them, when the process is to be traced no
    // more. Borrowed; null: the kernel lets go of them when this process ends.
    Stragglers* stragglers = nullptr;
  };

  // All threads run on. Errors as of ProcessStop::Make.
  static absl::StatusOr<std::unique_ptr<WatchedProcess>> Seize(pid_t process, Wishes wishes);
  ~WatchedProcess();
  WatchedProcess(const WatchedProcess&) = delete;
  WatchedProcess& operator=(const WatchedProcess&) = delete;

  std::optional<WatchEvent> Next();
  // Threads stop all the time, at hooks: there may be something for Next, without a SIGCHLD.
  bool more() const { return more_; }
  // kUnavailable: a thread does not stop within `patience`, and all go on; kNotFound: it has ended.
  // The stop is to be gone before Resume.
  absl::StatusOr<std::unique_ptr<ProcessStop>> Stop(std::chrono::milliseconds patience);
  void Resume();
  void Pass(pid_t thread);
  // Ends the calls of Wishes::calls whose time is over, soon.
  void EndDueCalls();
  // Without `stops` arrivals cost nothing and are no events.
  void UseStops(bool stops);
  // Places that cannot have a breakpoint.
  const std::set<uint64_t>& refused() const { return code_.refused(); }

 private:
  struct Thread {
    enum class State : uint8_t {
      kRuns,     // or listens for the end of a stop by job control
      kStopped,  // in PTRACE_EVENT_STOP
      kSignal,   // `info` is about to be delivered
    };
    State state = State::kRuns;
    uint64_t stopped_ns = 0;  // since when, unless it runs
    int group_stop = 0;
    siginfo_t info = {};  // kSignal
    bool held = false;    // for its event
    bool guest = false;   // of a child that shares the memory
    uint64_t at = 0;      // at this place, with its instruction to be executed
    // Has been kept from a signal that is to come again: by itself, since it is at the instruction
    // that raises it, or in place of one that this process sent.
    std::optional<siginfo_t> again;
  };

  WatchedProcess(pid_t process, Wishes wishes);
  uintptr_t Options() const;
  absl::Status SeizeAll();
  pid_t LiveThread() const;
  void FindPlaces();
  void LetStoppedGo();
  void StopToLeave();
  bool IsStopping(pid_t thread, const Thread& state) const;
  void LetGo(pid_t thread, const Thread& state);
  bool AllStopped() const;
  absl::Status StopAll(std::chrono::milliseconds patience);

  // Whether it runs on by itself when it has stopped.
  bool GoesOn(const Thread& state) const { return state.guest ? !leaving_ : !stopping_; }
  void Collect();
  bool CollectAll();
  bool CollectOne(pid_t thread);
  void OnStatus(pid_t thread, const WaitStatus& status);
  void OnSignal(pid_t thread, int signal);
  void OnArrival(pid_t thread, uint64_t address);
  void OnNewTask(pid_t thread);
  void OnExec(pid_t thread);
  void OnEnd(pid_t thread, const WaitStatus& status);
  bool ComesAgain(pid_t thread, Thread* state, siginfo_t* info);

  void Go(pid_t thread);
  void GoOnWithSignal(pid_t thread, Thread* state);
  void StepOver(pid_t thread);
  void LeaveGuests();

  const pid_t process_;
  const Wishes wishes_;
  std::map<pid_t, Thread> threads_;
  CodePlaces code_;
  Places places_;
  std::vector<uint64_t> scratch_;
  std::deque<WatchEvent> events_;
  bool stopping_ = false;  // or stopped, since
  bool leaving_ = false;   // guests stop, too, to be let go of
  bool more_ = false;
  uint64_t first_ns_ = 0, skew_ns_ = 0;
  bool use_stops_ = true;
  bool ended_ = false;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PTRACE_WATCH_WATCHED_PROCESS_H_
