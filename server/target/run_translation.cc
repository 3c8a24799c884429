#include "server/target/run_translation.h"

#include <algorithm>
#include <functional>

namespace hindsight {
namespace {

StopKind KindOf(const RunStop& stop) {
  switch (stop.kind) {
    case RunStopKind::kStep:
      return StopKind::kStep;
    case RunStopKind::kBreakpoint:
      return StopKind::kBreakpoint;
    case RunStopKind::kWatchpoint:
      return StopKind::kWatchpoint;
    case RunStopKind::kSignal:
      return StopKind::kSignal;
    case RunStopKind::kBegin:
      return StopKind::kBegin;
    case RunStopKind::kEnd:
      return StopKind::kEnd;
    case RunStopKind::kInterrupted:
      return StopKind::kInterrupted;
    case RunStopKind::kSyscallEntry:
      return StopKind::kSyscallEntry;
    case RunStopKind::kSyscallReturn:
      return StopKind::kSyscallReturn;
    case RunStopKind::kExec:
      return StopKind::kExec;
    case RunStopKind::kFork:
      return stop.fork == ForkKind::kVfork ? StopKind::kVfork : StopKind::kFork;
    case RunStopKind::kThreadStart:
      return StopKind::kThreadStart;
    case RunStopKind::kThreadExit:
      return StopKind::kThreadExit;
  }
  return StopKind::kStep;
}

std::function<bool(int32_t)> Bind(const StopCondition& condition, int32_t pid) {
  if (!condition) return nullptr;
  return [&condition, pid](int32_t thread) { return condition({pid, thread}); };
}

}  // namespace

RunRequest ToRunRequest(const ResumeRequest& request, ThreadRef thread) {
  RunRequest run;
  run.direction =
      request.direction == Direction::kForward ? RunDirection::kForward : RunDirection::kBackward;
  run.thread = request.thread.tid > 0 ? request.thread.tid : thread.tid;
  run.only_thread = request.only_thread;
  run.step = request.step;
  run.range_start = request.range_start;
  run.range_end = request.range_end;
  if (request.breakpoints != nullptr) {
    for (const BreakpointSpec& breakpoint : *request.breakpoints) {
      run.breakpoints.push_back(
          {.address = breakpoint.address, .condition = Bind(breakpoint.condition, thread.pid)});
    }
  }
  if (request.watchpoints != nullptr) {
    for (const WatchpointSpec& watchpoint : *request.watchpoints) {
      run.watchpoints.push_back({.address = watchpoint.address,
                                 .length = watchpoint.length,
                                 .on_write = watchpoint.kind != WatchKind::kRead,
                                 .on_read = watchpoint.kind != WatchKind::kWrite,
                                 .condition = Bind(watchpoint.condition, thread.pid)});
    }
  }
  if (request.pass_signal) {
    run.stop_for_signal = [&request](int signal) { return !request.pass_signal(signal); };
  }
  if (request.catch_syscalls) {
    run.stop_for_syscall = [&request](int64_t number) {
      return request.syscalls.empty() || std::find(request.syscalls.begin(), request.syscalls.end(),
                                                   number) != request.syscalls.end();
    };
  }
  run.stop_for_exec = request.stop_for_exec;
  run.stop_for_fork = request.stop_for_fork;
  // Where a thread runs alone its ends are those of the run.
  run.stop_for_threads = request.stop_for_threads || request.only_thread;
  run.interrupt = request.interrupt;
  return run;
}

StopEvent ToStopEvent(const RunStop& stop, const ResumeRequest& request, int32_t pid) {
  StopEvent event = {.kind = KindOf(stop),
                     .thread = {pid, stop.thread},
                     .signal = stop.signal,
                     .address = stop.address,
                     .syscall = stop.syscall};
  if (!request.stop_for_threads && event.kind == StopKind::kThreadExit) event.kind = StopKind::kEnd;
  if (!request.stop_for_threads && event.kind == StopKind::kThreadStart) {
    event.kind = StopKind::kBegin;
  }
  if (stop.kind == RunStopKind::kFork) event.child = {stop.child, stop.child};
  if (stop.kind == RunStopKind::kWatchpoint && request.watchpoints != nullptr &&
      stop.index < request.watchpoints->size()) {
    event.watch = (*request.watchpoints)[stop.index].kind;
  }
  return event;
}

}  // namespace hindsight
