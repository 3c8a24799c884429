#include "server/session/stop_reply.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/rsp/hex.h"
#include "server/rsp/signals.h"
#include "server/session/thread_id.h"
#include "server/target/target_description.h"

namespace hindsight {
namespace {

int SignalOf(const RunStop& event) {
  switch (event.kind) {
    case StopKind::kSignal:
      return GdbSignal(event.signal);
    case StopKind::kInterrupted:
      return kGdbSignalInt;
    default:
      return kGdbSignalTrap;
  }
}

std::string BreakpointReason(SessionState& state, ThreadRef thread) {
  const absl::StatusOr<std::string> bytes = state.target->ReadRegister(thread, kRegisterRip);
  if (!bytes.ok() || bytes->size() != sizeof(uint64_t)) return "";
  uint64_t pc = 0;
  std::memcpy(&pc, bytes->data(), sizeof(pc));
  if (state.breakpoints.Contains(BreakpointType::kSoftware, pc)) {
    return state.client.swbreak ? "swbreak:;" : "";
  }
  if (state.breakpoints.Contains(BreakpointType::kHardware, pc)) {
    return state.client.hwbreak ? "hwbreak:;" : "";
  }
  return "";
}

// From now on the client takes the child for a process that it may speak of.
std::string ForkReason(SessionState& state, absl::string_view name, int32_t child) {
  state.forks.announced.insert(child);
  return absl::StrCat(name, ":", ThreadId({child, child}, state.client.multiprocess), ";");
}

std::string Reason(SessionState& state, const RunStop& event) {
  switch (event.kind) {
    case StopKind::kBreakpoint:
      return BreakpointReason(state, state.target->ThreadOf(event.thread));
    case StopKind::kWatchpoint: {
      const char* name = event.watch == WatchKind::kWrite  ? "watch"
                         : event.watch == WatchKind::kRead ? "rwatch"
                                                           : "awatch";
      return absl::StrFormat("%s:%x;", name, event.address);
    }
    case StopKind::kBegin:
      return "replaylog:begin;";
    case StopKind::kEnd:
      return "replaylog:end;";
    case StopKind::kSyscallEntry:
      return absl::StrFormat("syscall_entry:%x;", event.syscall);
    case StopKind::kSyscallReturn:
      return absl::StrFormat("syscall_return:%x;", event.syscall);
    case StopKind::kExec:
      return absl::StrCat("exec:", rsp::HexEncode(state.target->ExecutablePath()), ";");
    case StopKind::kFork:
      return ForkReason(state, "fork", event.child);
    case StopKind::kVfork:
      return ForkReason(state, state.client.vfork_events ? "vfork" : "fork", event.child);
    case StopKind::kThreadStart:
      return "create:;";
    case StopKind::kThreadExit:
    case StopKind::kStep:
    case StopKind::kSignal:
    case StopKind::kInterrupted:
      return "";
  }
  return "";
}

// What LLDB wants to know of all threads in one go.
std::string AllThreads(SessionState& state) {
  std::string ids, pcs;
  for (const ThreadRef& thread : state.target->threads()) {
    const char* comma = ids.empty() ? "" : ",";
    absl::StrAppend(&ids, comma, ThreadId(thread, state.client.multiprocess));
    const absl::StatusOr<std::string> bytes = state.target->ReadRegister(thread, kRegisterRip);
    uint64_t pc = 0;
    if (bytes.ok()) std::memcpy(&pc, bytes->data(), std::min(bytes->size(), sizeof(pc)));
    absl::StrAppend(&pcs, comma, absl::Hex(pc));
  }
  return absl::StrCat("threads:", ids, ";thread-pcs:", pcs, ";");
}

std::string Compose(SessionState& state, int signal, absl::string_view reason, ThreadRef thread) {
  state.selection.general = state.selection.stepping = thread;
  state.forks.child_selected = false;
  std::string reply = absl::StrFormat("T%02x%sthread:%s;", signal, reason,
                                      ThreadId(thread, state.client.multiprocess));
  if (state.selection.list_in_stop_replies) absl::StrAppend(&reply, AllThreads(state));
  for (const int number : {kRegisterRbp, kRegisterRsp, kRegisterRip}) {
    const absl::StatusOr<std::string> bytes = state.target->ReadRegister(thread, number);
    if (!bytes.ok()) continue;
    absl::StrAppend(&reply, absl::Hex(number, absl::kZeroPad2), ":");
    rsp::AppendHex(*bytes, &reply);
    reply.push_back(';');
  }
  return reply;
}

}  // namespace

std::string StopReply(SessionState& state, const RunStop& event) {
  if (event.kind == StopKind::kThreadExit) {
    // What a thread's exit code was is not recorded.
    return absl::StrCat("w00;",
                        ThreadId(state.target->ThreadOf(event.thread), state.client.multiprocess));
  }
  return StopReply(state, event, Reason(state, event));
}

std::string StopReply(SessionState& state, const RunStop& event, absl::string_view reason) {
  return Compose(state, SignalOf(event), reason, state.target->ThreadOf(event.thread));
}

std::string StatusReply(SessionState& state) {
  const RunStop event = state.target->LastStop();
  return Compose(state, SignalOf(event), "", state.target->current_thread());
}

}  // namespace hindsight
