#include "server/replay_target.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/target_description.h"

namespace hindsight {
namespace {

StopKind KindOf(RunStopKind kind) {
  switch (kind) {
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
    case RunStopKind::kThreadStart:
    case RunStopKind::kThreadExit:
      return StopKind::kStep;
  }
  return StopKind::kStep;
}

std::function<bool(int32_t)> Bind(const StopCondition& condition, ThreadRef thread) {
  if (!condition) return nullptr;
  return [&condition, thread](int32_t) { return condition(thread); };
}

RunRequest ToRunRequest(const ResumeRequest& request) {
  RunRequest run;
  run.direction =
      request.direction == Direction::kForward ? RunDirection::kForward : RunDirection::kBackward;
  run.step = request.step;
  run.range_start = request.range_start;
  run.range_end = request.range_end;
  if (request.breakpoints != nullptr) {
    for (const BreakpointSpec& breakpoint : *request.breakpoints) {
      run.breakpoints.push_back(
          {.address = breakpoint.address, .condition = Bind(breakpoint.condition, request.thread)});
    }
  }
  if (request.watchpoints != nullptr) {
    for (const WatchpointSpec& watchpoint : *request.watchpoints) {
      run.watchpoints.push_back({.address = watchpoint.address,
                                 .length = watchpoint.length,
                                 .on_write = watchpoint.kind != WatchKind::kRead,
                                 .on_read = watchpoint.kind != WatchKind::kWrite,
                                 .condition = Bind(watchpoint.condition, request.thread)});
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
  run.interrupt = request.interrupt;
  return run;
}

std::string ExitText(const ExitStatus& status) {
  if (status.exited()) return absl::StrCat("exited with status ", status.code());
  return absl::StrCat("was killed by signal ", status.signal(), " (", strsignal(status.signal()),
                      ")");
}

}  // namespace

absl::StatusOr<std::unique_ptr<ReplayTarget>> ReplayTarget::Open(const TraceReader* trace) {
  ASSIGN_OR_RETURN(std::unique_ptr<Timeline> timeline, Timeline::Open(trace));
  return std::unique_ptr<ReplayTarget>(new ReplayTarget(trace, std::move(timeline)));
}

ReplayTarget::ReplayTarget(const TraceReader* trace, std::unique_ptr<Timeline> timeline)
    : trace_(trace),
      timeline_(std::move(timeline)),
      thread_{trace->manifest().pid, timeline_->current_thread()},
      objects_(trace, &timeline_->process()),
      monitor_(trace, timeline_.get()) {
  last_stop_.thread = thread_;
}

absl::Status ReplayTarget::CheckThread(ThreadRef thread) {
  if (thread == thread_) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("no thread ", thread.tid, " at this position"));
}

RegisterSet ReplayTarget::register_set() {
  return trace_->manifest().register_layout == kBaseRegisterLayout ? RegisterSet::kSse
                                                                   : RegisterSet::kAvx512;
}

const RegisterFile& ReplayTarget::ThreadRegisters() {
  absl::StatusOr<RegisterFile> registers = timeline_->registers(thread_.tid);
  if (registers.ok()) registers_ = *std::move(registers);
  return registers_;
}

const RegisterFile& ReplayTarget::Registers() {
  return scratch_ != nullptr ? scratch_->registers() : ThreadRegisters();
}

int64_t ReplayTarget::OrigRax() const {
  if (scratch_ != nullptr) return scratch_orig_rax_;
  const uint64_t count = timeline_->count(thread_.tid);
  const ThreadState& process = timeline_->thread_state(thread_.tid);
  const ProcessEvent* event = process.SyscallFrom(count);
  if (event == nullptr) event = process.PreviousSyscall(count);
  return event != nullptr && event->count >= count ? event->number : -1;
}

absl::StatusOr<std::string> ReplayTarget::ReadRegister(ThreadRef thread, int number) {
  RETURN_IF_ERROR(CheckThread(thread));
  if (number < 0 || number >= kRegisterCount) return absl::NotFoundError("no such register");
  if (number == kRegisterOrigRax) {
    int64_t value = OrigRax();
    return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return EncodeRegister(Registers(), number);
}

absl::StatusOr<size_t> ReplayTarget::ReadMemory(ThreadRef thread, uint64_t address,
                                                absl::Span<uint8_t> out) {
  ScratchProcess* copy = scratch_.get();
  if (copy == nullptr) {
    absl::StatusOr<size_t> known = timeline_->ReadMemory(thread_.tid, address, out);
    if (!absl::IsNotFound(known.status()) || suspended_scratch_ == nullptr) return known;
    // What a function called before has got.
    copy = suspended_scratch_.get();
  }
  size_t known = copy->ReadMemory(address, out);
  if (known == 0 && !out.empty()) return absl::NotFoundError("memory that is not in the trace");
  return known;
}

bool ReplayTarget::ReadAll(uint64_t address, absl::Span<uint8_t> out) {
  absl::StatusOr<size_t> known = ReadMemory(thread_, address, out);
  return known.ok() && *known == out.size();
}

std::vector<MemoryRegion> ReplayTarget::Regions() {
  std::vector<MemoryRegion> regions;
  for (const MapRegion& region : timeline_->process().MapsAt(timeline_->moment())) {
    regions.push_back({region.start, region.end, region.protection, region.name});
  }
  return regions;
}

absl::StatusOr<std::string> ReplayTarget::SigInfo(ThreadRef thread) {
  RETURN_IF_ERROR(CheckThread(thread));
  return objects_.SigInfo(timeline_->moment());
}

absl::StatusOr<std::vector<Library>> ReplayTarget::Libraries(uint64_t* main_link_map) {
  LinkMap map = objects_.Libraries(
      timeline_->moment(),
      [this](uint64_t address, absl::Span<uint8_t> out) { return ReadAll(address, out); });
  *main_link_map = map.main;
  return std::move(map.libraries);
}

absl::StatusOr<std::string> ReplayTarget::ReadLink(const std::string& path) {
  return objects_.ReadLink(
      path, timeline_->moment(),
      [this](uint64_t address, absl::Span<uint8_t> out) { return ReadAll(address, out); });
}

absl::StatusOr<std::string> ReplayTarget::FileContents(const std::string& path) {
  return objects_.FileContents(
      path, timeline_->moment(),
      [this](uint64_t address, absl::Span<uint8_t> out) { return ReadAll(address, out); });
}

absl::StatusOr<uint64_t> ReplayTarget::TlsAddress(ThreadRef thread, uint64_t offset,
                                                  uint64_t link_map) {
  RETURN_IF_ERROR(CheckThread(thread));
  return objects_.TlsAddress(
      Registers().fs_base, offset, link_map,
      [this](uint64_t address, absl::Span<uint8_t> out) { return ReadAll(address, out); });
}

StopEvent ReplayTarget::Translate(const RunStop& stop, const ResumeRequest& request) const {
  StopEvent event = {.kind = KindOf(stop.kind),
                     .thread = thread_,
                     .signal = stop.signal,
                     .address = stop.address,
                     .syscall = stop.syscall};
  if (stop.kind == RunStopKind::kWatchpoint && request.watchpoints != nullptr &&
      stop.index < request.watchpoints->size()) {
    event.watch = (*request.watchpoints)[stop.index].kind;
  }
  return event;
}

void ReplayTarget::TellEnd() {
  if (last_stop_.kind == StopKind::kEnd) return;
  const Manifest& manifest = trace_->manifest();
  if (timeline_->process().exit_status()) {
    absl::StrAppend(&console_text_, "hindsight: here the program ",
                    ExitText(*timeline_->process().exit_status()), "\n");
  } else {
    absl::StrAppend(&console_text_, "hindsight: the recording ends here",
                    manifest.end_reason.empty() ? "" : ": ", manifest.end_reason, "\n");
  }
}

absl::StatusOr<StopEvent> ReplayTarget::Resume(const ResumeRequest& request) {
  if (scratch_ != nullptr) {
    if (request.direction == Direction::kBackward) {
      return StopEvent{.kind = StopKind::kBegin, .thread = thread_};
    }
    StopEvent event = scratch_->Resume(request);
    absl::StrAppend(&console_text_, scratch_->TakeText());
    return event;
  }
  suspended_scratch_ = nullptr;
  ASSIGN_OR_RETURN(RunStop stop, timeline_->Run(ToRunRequest(request)));
  StopEvent event = Translate(stop, request);
  if (event.kind == StopKind::kExec) event.program = ExecutablePath();
  if (event.kind == StopKind::kEnd) TellEnd();
  last_stop_ = event;
  return event;
}

absl::Status ReplayTarget::Divert() {
  if (scratch_ != nullptr) return absl::OkStatus();
  scratch_orig_rax_ = OrigRax();
  ASSIGN_OR_RETURN(scratch_,
                   ScratchProcess::Create(
                       thread_, ThreadRegisters(), timeline_->process().MapsAt(timeline_->moment()),
                       [this](uint64_t address, absl::Span<uint8_t> out) {
                         return timeline_->ReadMemory(thread_.tid, address, out).value_or(0);
                       }));
  return absl::OkStatus();
}

void ReplayTarget::EndDiversion() {
  scratch_ = nullptr;
  suspended_scratch_ = nullptr;
}

void ReplayTarget::SuspendDiversion() { suspended_scratch_ = std::move(scratch_); }

bool ReplayTarget::ResumeDiversion() {
  if (suspended_scratch_ == nullptr) return false;
  scratch_orig_rax_ = OrigRax();
  scratch_ = std::move(suspended_scratch_);
  // It ended with the registers it began with, or was set aside in the middle of something.
  scratch_->SetRegisters(ThreadRegisters());
  return true;
}

absl::Status ReplayTarget::WriteRegister(ThreadRef thread, int number,
                                         absl::Span<const uint8_t> bytes) {
  RETURN_IF_ERROR(CheckThread(thread));
  RegisterFile registers = Registers();
  if (!DecodeRegister(bytes, number, &registers)) {
    return absl::InvalidArgumentError("no such register, or not of this size");
  }
  int64_t orig_rax = OrigRax();
  if (number == kRegisterOrigRax) std::memcpy(&orig_rax, bytes.data(), sizeof(orig_rax));
  if (registers == Registers() && orig_rax == OrigRax()) return absl::OkStatus();
  RETURN_IF_ERROR(Divert());
  scratch_->SetRegisters(registers);
  scratch_orig_rax_ = orig_rax;
  return absl::OkStatus();
}

absl::Status ReplayTarget::WriteMemory(ThreadRef thread, uint64_t address,
                                       absl::Span<const uint8_t> bytes) {
  RETURN_IF_ERROR(CheckThread(thread));
  if (scratch_ == nullptr) {
    // gdb puts back what it found; that must not begin a diversion.
    std::vector<uint8_t> present(bytes.size());
    if (ReadAll(address, absl::MakeSpan(present)) &&
        std::equal(bytes.begin(), bytes.end(), present.begin())) {
      return absl::OkStatus();
    }
  }
  const bool began = scratch_ == nullptr;
  RETURN_IF_ERROR(Divert());
  absl::Status status = scratch_->WriteMemory(address, bytes);
  if (!status.ok() && began) scratch_ = nullptr;
  return status;
}

absl::StatusOr<std::string> ReplayTarget::Monitor(const std::string& command, ThreadRef,
                                                  const std::atomic<bool>*, bool* moved) {
  const uint64_t before = timeline_->moment();
  absl::StatusOr<std::string> output = monitor_.Run(command);
  *moved = timeline_->moment() != before;
  if (*moved) {
    EndDiversion();
    last_stop_ = {.thread = thread_};
  }
  return output;
}

std::string ReplayTarget::TakeConsoleText() { return std::exchange(console_text_, ""); }

absl::Status ReplayTarget::GoTo(const std::string& where, const std::atomic<bool>*) {
  RETURN_IF_ERROR(monitor_.GoTo(where));
  EndDiversion();
  last_stop_ = {.thread = thread_};
  return absl::OkStatus();
}

}  // namespace hindsight
