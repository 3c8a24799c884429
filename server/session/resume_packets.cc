// Running: vCont, c, C, s, S, bc, bs, ?, vRun, and what stops a run: QPassSignals, QCatchSyscalls.

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "server/rsp/hex.h"
#include "server/rsp/scanner.h"
#include "server/rsp/signals.h"
#include "server/session/backward_line.h"
#include "server/session/packet_table.h"
#include "server/session/stop_reply.h"
#include "server/session/thread_id.h"
#include "server/target/target_description.h"

namespace hindsight {
namespace {

struct Resumption {
  bool step = false;
  uint64_t range_start = 0, range_end = 0;
  ThreadRef thread;          // tid 0 or less: not named
  bool only_thread = false;  // the others are not named: they are not to be resumed
};

absl::Status Malformed() { return absl::InvalidArgumentError("malformed resume packet"); }

// One action of vCont: c, C<signal>, s, S<signal>, r<start>,<end>, each with ":<thread>" or
// without.
absl::StatusOr<Resumption> ParseAction(absl::string_view text) {
  rsp::Scanner scanner(text);
  Resumption action;
  // Which signals the program gets was decided when it was recorded; the number is only checked.
  if (scanner.Consume('C') || scanner.Consume('S')) {
    action.step = text.front() == 'S';
    if (!scanner.Hex().has_value()) return Malformed();
  } else if (scanner.Consume('r')) {
    action.step = true;
    const std::optional<uint64_t> start = scanner.Hex();
    if (!start.has_value() || !scanner.Consume(',')) return Malformed();
    const std::optional<uint64_t> end = scanner.Hex();
    if (!end.has_value()) return Malformed();
    action.range_start = *start;
    action.range_end = *end;
  } else if (scanner.Consume('s')) {
    action.step = true;
  } else if (!scanner.Consume('c')) {
    return Malformed();
  }
  if (scanner.Consume(':')) {
    const std::optional<ThreadRef> thread = ParseThreadId(&scanner);
    if (!thread.has_value()) return Malformed();
    action.thread = *thread;
  }
  if (!scanner.empty()) return Malformed();
  return action;
}

// All threads move along one recorded timeline, so of several actions that of the thread that steps
// decides when to stop; the others go where they went. An action for one thread alone is how a
// client locks the scheduler: what the others do is not to be reported.
absl::StatusOr<Resumption> ParseVCont(absl::string_view arguments) {
  Resumption chosen;
  size_t actions = 0;
  bool others = false;
  for (const absl::string_view text : absl::StrSplit(arguments, ';')) {
    ASSIGN_OR_RETURN(const Resumption action, ParseAction(text));
    if (actions++ == 0 || (action.step && !chosen.step)) chosen = action;
    others |= action.thread.tid <= 0;
  }
  chosen.only_thread = actions == 1 && !others;
  return chosen;
}

// c, s: "resume at ADDRESS" would leave the recording.
absl::StatusOr<bool> ParseNothing(absl::string_view arguments) {
  if (!arguments.empty()) return absl::UnimplementedError("resuming elsewhere");
  return true;
}

absl::StatusOr<bool> ParseSignal(absl::string_view arguments) {
  if (absl::StrContains(arguments, ';')) return absl::UnimplementedError("resuming elsewhere");
  if (!rsp::ParseHex(arguments).has_value()) return Malformed();
  return true;
}

// Signal 0 makes gdb stop whatever command it is executing, and say nothing about the program.
std::string StopWithoutReason(SessionState& state) {
  state.selection.general = state.selection.stepping = state.target->current_thread();
  return absl::StrCat("T00thread:", ThreadId(state.selection.general, state.client.multiprocess),
                      ";");
}

// A damaged trace must not end the session: earlier positions can still be looked at.
std::string StopAfterError(SessionState& state, const absl::Status& status) {
  state.Print(absl::StrCat("hindsight: ", status.message(), "\n"));
  return StopWithoutReason(state);
}

// A copy in which a function is being called is what runs; any other is thrown away by moving.
void LeaveIdleDiversion(SessionState& state) {
  if (state.target->InDiversion() && state.DivertedInACall()) return;
  if (state.target->HasWrites()) {
    state.Print("hindsight: what was written is gone; a recording goes on as it was recorded\n");
  }
  state.LeaveDiversion();
}

std::string RefuseToReverse(SessionState& state) {
  state.Print(
      "hindsight: this is a throw-away copy of the program, made because its registers were "
      "written; it has no past. `monitor discard` returns to the recording.\n");
  RunStop begin;
  begin.kind = StopKind::kBegin;
  begin.thread = state.SelectedThread().tid;
  return StopReply(state, begin);
}

// After a vfork event a client leaves its breakpoints out until `vforkdone` says that the child no
// longer shares the memory; here that is so once the call has returned.
std::string VforkDone(SessionState& state) {
  const ThreadRef thread = std::exchange(state.forks.vfork_parent, {});
  const std::vector<ThreadRef> threads = state.target->threads();
  RunStop event;
  event.thread = FindThread(threads, thread).value_or(state.target->current_thread()).tid;
  return StopReply(state, event, "vforkdone:;");
}

// Whose steps count, and whether only what happens in it does.
void ChooseThread(SessionState& state, const Resumption& resumption, RunRequest* request) {
  const std::vector<ThreadRef> threads = state.target->threads();
  if (std::optional<ThreadRef> named = FindThread(threads, resumption.thread)) {
    request->thread = named->tid;
    request->only_thread = resumption.only_thread;
  } else if (std::optional<ThreadRef> chosen = FindThread(threads, state.selection.resumed)) {
    request->thread = chosen->tid;
    request->only_thread = true;
  } else if (state.target->InDiversion() && !state.diversion.threads.empty()) {
    // Not the one that gdb stepped off a breakpoint before, though it named that one last.
    request->thread = state.diversion.threads.back().thread.tid;
  } else {
    request->thread =
        FindThread(threads, state.selection.stepping).value_or(state.SelectedThread()).tid;
  }
}

RunRequest MakeRequest(SessionState& state, Direction direction, const Resumption& resumption) {
  RunRequest request;
  request.direction = direction;
  request.step = resumption.step;
  request.range_start = resumption.range_start;
  request.range_end = resumption.range_end;
  ChooseThread(state, resumption, &request);
  request.breakpoints = state.breakpoints.breakpoints();
  request.watchpoints = state.breakpoints.watchpoints();
  if (state.filters.passed_signals.any()) {
    request.stop_for_signal = [&state](int signal) {
      return !state.filters.passed_signals[static_cast<size_t>(GdbSignal(signal))];
    };
  }
  if (state.filters.catch_syscalls) {
    request.stop_for_syscall = [&caught = state.filters.syscalls](int64_t number) {
      return caught.empty() || std::find(caught.begin(), caught.end(), number) != caught.end();
    };
  }
  request.stop_for_exec = state.client.exec_events;
  request.stop_for_fork = state.client.fork_events;
  request.stop_for_threads = state.selection.report_events;
  request.interrupt = state.interrupt;
  return request;
}

// A client that knows of a breakpoint steps off it, or removes it, before continuing.
void ForgetStaleBreakpoint(SessionState& state) {
  if (state.repeated_stop.times < 2) return;
  state.breakpoints.RemoveAt(state.repeated_stop.address);
  state.repeated_stop.times = 0;
}

void NoteBreakpoint(SessionState& state, const RunStop& event, bool continued) {
  uint64_t pc = 0;
  const absl::StatusOr<std::string> bytes =
      state.target->ReadRegister(state.target->ThreadOf(event.thread), kRegisterRip);
  if (bytes.ok()) std::memcpy(&pc, bytes->data(), std::min(bytes->size(), sizeof(pc)));
  if (!continued || event.kind != StopKind::kBreakpoint) {
    state.repeated_stop.times = 0;
  } else if (state.repeated_stop.times == 0 || state.repeated_stop.address != pc) {
    state.repeated_stop.address = pc;
    state.repeated_stop.times = 1;
  } else {
    ++state.repeated_stop.times;
  }
}

absl::StatusOr<RunStop> Resume(SessionState& state, RunRequest request, ThreadRef stepped_in_copy) {
  if (state.target->InDiversion()) {
    const bool aside = request.step && request.thread != state.diversion.threads.back().thread.tid;
    state.diversion.stepped_off = aside ? state.target->ThreadOf(request.thread) : stepped_in_copy;
    return state.target->Resume(std::move(request));
  }
  if (request.step && request.direction == Direction::kBackward && !state.backward_lines.empty()) {
    return StepBackward(state.target, request, state.backward_lines);
  }
  const std::vector<ThreadRef> threads = state.target->threads();
  if (!request.step && request.direction == Direction::kForward &&
      FindThread(threads, stepped_in_copy)) {
    RunRequest step_off = request;
    step_off.step = true;
    step_off.thread = stepped_in_copy.tid;
    ASSIGN_OR_RETURN(RunStop event, state.target->Resume(std::move(step_off)));
    if (event.kind != StopKind::kStep) return event;
  }
  return state.target->Resume(std::move(request));
}

// An interrupt that came before the run stops it where it begins: gdb may be stepping through a
// line, one short run for each instruction.
absl::StatusOr<RunStop> ResumeUnlessInterrupted(SessionState& state, RunRequest request,
                                                ThreadRef stepped_in_copy) {
  const InterruptWatch::Armed armed(state.watch);
  if (state.interrupt->load()) {
    return RunStop{.kind = StopKind::kInterrupted, .thread = request.thread};
  }
  return Resume(state, std::move(request), stepped_in_copy);
}

Reply Run(SessionState& state, Direction direction, const Resumption& resumption) {
  state.transfer = {};
  state.forks.reported_child = 0;
  state.Print(std::exchange(state.next_continue.text, {}));
  // A function called by the client runs in any case, and does not move the program.
  const bool swallow =
      !state.DivertedInACall() && std::exchange(state.next_continue.swallow, false);
  if (swallow && direction == Direction::kForward && !resumption.step) {
    return StopWithoutReason(state);
  }
  const ThreadRef stepped_in_copy = state.diversion.stepped_off;
  LeaveIdleDiversion(state);
  if (direction == Direction::kBackward && state.target->InDiversion()) {
    return RefuseToReverse(state);
  }
  if (state.forks.vfork_parent.tid > 0) return VforkDone(state);
  const bool continues = direction == Direction::kForward && !resumption.step;
  if (continues) ForgetStaleBreakpoint(state);
  absl::StatusOr<RunStop> event =
      ResumeUnlessInterrupted(state, MakeRequest(state, direction, resumption), stepped_in_copy);
  const std::string text = state.target->TakeConsoleText();
  if (!text.empty()) state.Print(text);
  if (!event.ok()) return StopAfterError(state, event.status());
  if (event->kind == StopKind::kInterrupted) state.watch->Acted();
  NoteBreakpoint(state, *event, continues);
  // The client assumes that its breakpoints vanished with the program they were set in.
  if (event->kind == StopKind::kExec) state.breakpoints.RemoveAll();
  state.forks.reported_child = event->child;
  if (event->kind == StopKind::kVfork && state.client.vfork_events) {
    state.forks.vfork_parent = state.target->ThreadOf(event->thread);
  }
  return StopReply(state, *event);
}

Reply VCont(SessionState& state, const Resumption& resumption) {
  if (resumption.thread.tid > 0 &&
      !FindThread(state.target->threads(), resumption.thread).has_value()) {
    return absl::InvalidArgumentError("no such thread");
  }
  return Run(state, Direction::kForward, resumption);
}

template <Direction direction, bool step>
Reply Plain(SessionState& state, bool) {
  Resumption resumption;
  resumption.step = step;
  return Run(state, direction, resumption);
}

Reply VContActions(SessionState&, absl::string_view) { return "vCont;c;C;s;S;r"; }

Reply Status(SessionState& state, absl::string_view) { return StatusReply(state); }

// The recorded process, for a client that had to say a token first (see SessionLock).
Reply Attach(SessionState& state, absl::string_view process) {
  const std::optional<uint64_t> pid = rsp::ParseHex(process);
  if (pid != static_cast<uint64_t>(state.target->current_thread().pid)) {
    return absl::NotFoundError("no such process");
  }
  return StatusReply(state);
}

// vRun;PROGRAM;ARGUMENT... in hexadecimal. The arguments say where to go.
absl::StatusOr<std::string> ParseRun(absl::string_view arguments) {
  rsp::Scanner scanner(arguments);
  scanner.Until(';');  // which program was recorded is not the client's choice
  std::string where;
  while (!scanner.empty()) {
    const std::optional<std::string> word = rsp::HexDecode(scanner.Until(';'));
    if (!word.has_value()) return absl::InvalidArgumentError("malformed argument");
    if (word->empty()) continue;
    absl::StrAppend(&where, where.empty() ? "" : " ", *word);
  }
  return where;
}

Reply GoTo(SessionState& state, const std::string& where) {
  state.LeaveDiversion();
  state.transfer = {};
  const absl::Status status = [&] {
    state.watch->Acted();
    const InterruptWatch::Armed armed(state.watch);
    return state.target->GoTo(where.empty() ? "start" : where, state.interrupt);
  }();
  state.watch->Acted();
  if (!status.ok()) {
    // After an error gdb would believe the program gone; it is where it was.
    state.next_continue.text = absl::StrCat("hindsight: ", status.message(), "\n");
  }
  state.next_continue.swallow = !where.empty();
  state.selection.resumed = {};
  return StatusReply(state);
}

absl::StatusOr<std::bitset<256>> ParseSignals(absl::string_view arguments) {
  std::bitset<256> signals;
  for (const absl::string_view text : absl::StrSplit(arguments, ';', absl::SkipEmpty())) {
    const std::optional<uint64_t> signal = rsp::ParseHex(text);
    if (!signal.has_value() || *signal >= signals.size()) {
      return absl::InvalidArgumentError("no such signal");
    }
    signals.set(*signal);
  }
  return signals;
}

// Until the command that the client is about to begin has ended, which it says with an empty list.
Reply SetBackwardLines(SessionState& state, std::vector<BackwardLine> lines) {
  state.backward_lines = std::move(lines);
  return "OK";
}

// Most stops reported to a client are single steps of a command; this is the end of a command.
Reply NoteVisit(SessionState& state, absl::string_view) {
  if (!state.target->InDiversion()) state.target->NoteVisit(state.SelectedThread());
  return "OK";
}

Reply PassSignals(SessionState& state, const std::bitset<256>& signals) {
  state.filters.passed_signals = signals;
  return "OK";
}

// Which signals the program may receive without a stop: in a recording it has received them.
Reply ProgramSignals(SessionState&, const std::bitset<256>&) { return "OK"; }

struct SyscallCatch {
  bool on = false;
  std::vector<int64_t> syscalls;
};

absl::StatusOr<SyscallCatch> ParseCatch(absl::string_view arguments) {
  rsp::Scanner scanner(arguments);
  SyscallCatch parsed;
  parsed.on = scanner.Consume('1');
  if (!parsed.on && !scanner.Consume('0')) return Malformed();
  while (scanner.Consume(';')) {
    const std::optional<uint64_t> number = scanner.Hex();
    if (!number.has_value()) return Malformed();
    parsed.syscalls.push_back(static_cast<int64_t>(*number));
  }
  if (!scanner.empty()) return Malformed();
  return parsed;
}

Reply CatchSyscalls(SessionState& state, const SyscallCatch& request) {
  state.filters.catch_syscalls = request.on;
  state.filters.syscalls = request.syscalls;
  return "OK";
}

constexpr PacketSpec kPackets[] = {
    {"?", Match::kWhole, Status},
    {"vAttach;", Match::kPrefix, Attach},
    {"vCont?", Match::kWhole, VContActions, "vContSupported+"},
    {"vCont;", Match::kPrefix, Bound<ParseVCont, VCont>, "", false, true},
    {"c", Match::kPrefix, Bound<ParseNothing, Plain<Direction::kForward, false>>, "", false, true},
    {"s", Match::kPrefix, Bound<ParseNothing, Plain<Direction::kForward, true>>, "", false, true},
    {"C", Match::kPrefix, Bound<ParseSignal, Plain<Direction::kForward, false>>, "", false, true},
    {"S", Match::kPrefix, Bound<ParseSignal, Plain<Direction::kForward, true>>, "", false, true},
    {"bc", Match::kWhole, Bound<ParseNothing, Plain<Direction::kBackward, false>>,
     "ReverseContinue+", false, true},
    {"bs", Match::kWhole, Bound<ParseNothing, Plain<Direction::kBackward, true>>, "ReverseStep+",
     false, true},
    {"vRun;", Match::kPrefix, Bound<ParseRun, GoTo>, "", false, true},
    {"QHindsightBackwardLines:", Match::kPrefix, Bound<ParseBackwardLines, SetBackwardLines>},
    {"QHindsightVisit", Match::kWhole, NoteVisit},
    {"QPassSignals:", Match::kPrefix, Bound<ParseSignals, PassSignals>, "QPassSignals+"},
    {"QProgramSignals:", Match::kPrefix, Bound<ParseSignals, ProgramSignals>, "QProgramSignals+"},
    {"QCatchSyscalls:", Match::kPrefix, Bound<ParseCatch, CatchSyscalls>, "QCatchSyscalls+"},
};

}  // namespace

absl::Span<const PacketSpec> ResumePackets() { return kPackets; }

}  // namespace hindsight
