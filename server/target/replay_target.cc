#include "server/target/replay_target.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/syscall_text.h"
#include "server/target/run_translation.h"
#include "server/target/target_description.h"

namespace hindsight {
namespace {

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
      objects_(trace, &timeline_->process()),
      monitor_(trace, timeline_.get()) {
  Moved({.thread = Ref(timeline_->current_thread())});
}

void ReplayTarget::Moved(StopEvent stop) {
  registers_.clear();
  current_ = stop.thread.tid;
  // A thread that is gone cannot be looked at.
  if (!timeline_->IsAlive(current_)) current_ = timeline_->current_thread();
  last_stop_ = std::move(stop);
}

std::vector<ThreadRef> ReplayTarget::threads() {
  std::vector<ThreadRef> threads;
  for (const int32_t thread : timeline_->threads()) threads.push_back(Ref(thread));
  return threads;
}

ThreadRef ReplayTarget::current_thread() {
  return Ref(scratch_ != nullptr ? scratch_thread_ : current_);
}

std::string ReplayTarget::ThreadName(ThreadRef thread) {
  return objects_.ThreadName(thread.tid, timeline_->moment());
}

std::optional<int> ReplayTarget::ThreadProcessor(ThreadRef thread) {
  return objects_.ThreadProcessor(thread.tid, timeline_->moment());
}

absl::Status ReplayTarget::CheckThread(ThreadRef thread) const {
  if (thread.pid == trace_->manifest().pid && timeline_->IsAlive(thread.tid)) {
    return absl::OkStatus();
  }
  return absl::NotFoundError(absl::StrCat("no thread ", thread.tid, " at this position"));
}

RegisterSet ReplayTarget::register_set() {
  return trace_->manifest().register_layout == kBaseRegisterLayout ? RegisterSet::kSse
                                                                   : RegisterSet::kAvx512;
}

absl::StatusOr<RegisterFile> ReplayTarget::RecordedRegisters(int32_t thread) {
  if (auto known = registers_.find(thread); known != registers_.end()) return known->second;
  ASSIGN_OR_RETURN(const RegisterFile registers, timeline_->registers(thread));
  // Conditions of breakpoints ask while the timeline moves.
  if (!running_) registers_[thread] = registers;
  return registers;
}

absl::StatusOr<RegisterFile> ReplayTarget::Registers(int32_t thread) {
  if (!IsDiverted(thread)) return RecordedRegisters(thread);
  return thread == scratch_thread_ ? scratch_->registers() : other_scratches_.at(thread);
}

int64_t ReplayTarget::OrigRax(int32_t thread) const {
  if (IsDiverted(thread)) return thread == scratch_thread_ ? scratch_orig_rax_ : -1;
  const uint64_t count = timeline_->count(thread);
  const ThreadState& state = timeline_->thread_state(thread);
  const ProcessEvent* event = state.SyscallFrom(count);
  if (event == nullptr) event = state.PreviousSyscall(count);
  return event != nullptr && event->count >= count ? event->number : -1;
}

absl::StatusOr<std::string> ReplayTarget::ReadRegister(ThreadRef thread, int number) {
  RETURN_IF_ERROR(CheckThread(thread));
  if (number < 0 || number >= kRegisterCount) return absl::NotFoundError("no such register");
  if (number == kRegisterOrigRax) {
    int64_t value = OrigRax(thread.tid);
    return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  if (scratch_ != nullptr && thread.tid == scratch_thread_) {
    return EncodeRegister(scratch_->registers(), number);
  }
  // All of them are asked for one by one.
  auto known = registers_.find(thread.tid);
  if (scratch_ == nullptr && known != registers_.end()) {
    return EncodeRegister(known->second, number);
  }
  ASSIGN_OR_RETURN(const RegisterFile registers, Registers(thread.tid));
  return EncodeRegister(registers, number);
}

absl::StatusOr<size_t> ReplayTarget::ReadMemory(ThreadRef thread, uint64_t address,
                                                absl::Span<uint8_t> out) {
  RETURN_IF_ERROR(CheckThread(thread));
  if (scratch_ != nullptr) {
    const size_t known = scratch_->ReadMemory(address, out);
    if (known > 0 || out.empty()) return known;
    return absl::NotFoundError("memory that is not in the trace");
  }
  if (suspended_scratch_ == nullptr) return timeline_->ReadMemory(thread.tid, address, out);
  return ReadBesideCall(thread.tid, address, out);
}

// What a called function has got shows where the recording has nothing to show: in memory it does
// not know, or that the program has not begun to use.
absl::StatusOr<size_t> ReplayTarget::ReadBesideCall(int32_t thread, uint64_t address,
                                                    absl::Span<uint8_t> out) {
  size_t done = 0;
  while (done < out.size() && address + done >= address) {
    const uint64_t at = address + done;
    const auto part = out.subspan(done, kPageBytes - at % kPageBytes);
    absl::StatusOr<size_t> known = timeline_->ReadMemory(thread, at, part);
    if (!known.ok() && !absl::IsNotFound(known.status())) return known;
    if (!known.ok() || timeline_->IsUntouched(thread, at).value_or(false)) {
      known = suspended_scratch_->ReadMemory(at, part);
    }
    done += *known;
    if (*known < part.size()) break;
  }
  if (done == 0 && !out.empty()) return absl::NotFoundError("memory that is not in the trace");
  return done;
}

bool ReplayTarget::ReadAll(uint64_t address, absl::Span<uint8_t> out) {
  absl::StatusOr<size_t> known = ReadMemory(current_thread(), address, out);
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
  return objects_.SigInfo(thread.tid, timeline_->moment());
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
  ASSIGN_OR_RETURN(const RegisterFile registers, Registers(thread.tid));
  return objects_.TlsAddress(registers.fs_base, offset, link_map,
                             [&](uint64_t address, absl::Span<uint8_t> out) {
                               absl::StatusOr<size_t> known = ReadMemory(thread, address, out);
                               return known.ok() && *known == out.size();
                             });
}

// A step ends where its thread does, though others go on.
void ReplayTarget::TellEnd(const StopEvent& event) {
  if (event.kind == last_stop_.kind && event.thread == last_stop_.thread) return;
  const bool begin = event.kind == StopKind::kBegin;
  if (timeline_->moment() != (begin ? 0 : timeline_->end_moment())) {
    absl::StrAppend(&console_text_, "hindsight: thread ", event.thread.tid,
                    begin ? " begins here; reverse-continue goes further back\n"
                          : " ends here; continue goes on with the others\n");
    return;
  }
  if (begin) return;
  const Manifest& manifest = trace_->manifest();
  if (timeline_->process().exit_status()) {
    absl::StrAppend(&console_text_, "hindsight: here the program ",
                    ExitText(*timeline_->process().exit_status()), "\n");
  } else {
    absl::StrAppend(&console_text_, "hindsight: the recording ends here",
                    manifest.end_reason.empty() ? "" : ": ", manifest.end_reason, "\n");
  }
}

void ReplayTarget::TellFork(const StopEvent& event) {
  if (std::exchange(fork_told_, true)) return;
  absl::StrAppend(&console_text_,
                  "hindsight: a process made here has a recording of its own, if children were "
                  "recorded: `hindsight replay -p ",
                  event.child.pid, "` shows it\n");
}

// gdb shows a caught call's name only.
void ReplayTarget::TellSyscall(const StopEvent& event) {
  const int32_t thread = event.thread.tid;
  const uint64_t count = timeline_->count(thread);
  const ThreadState& state = timeline_->thread_state(thread);
  const bool entry = event.kind == StopKind::kSyscallEntry;
  const ProcessEvent* const call = entry ? state.SyscallFrom(count) : state.PreviousSyscall(count);
  if (call == nullptr || call->number != event.syscall) return;
  const auto memory = [this, thread](uint64_t address, absl::Span<uint8_t> out) {
    return timeline_->ReadMemory(thread, address, out).value_or(0);
  };
  std::optional<int64_t> result;
  if (!entry) result = call->result;
  absl::StrAppend(&console_text_,
                  "hindsight: ", SyscallText(call->number, call->arguments, result, memory), "\n");
}

// Changes there are not seen: what is found beyond may not be the last one.
void ReplayTarget::TellUnknown(const UnknownMemory& unknown) {
  const ProcessState& process = timeline_->process();
  const auto position = [&](uint64_t moment) {
    return ToString(process.PositionAt(unknown.thread, moment));
  };
  absl::StrAppendFormat(&console_text_,
                        "hindsight: memory at 0x%x was not known between %s and %s; its value may "
                        "have changed there\n",
                        unknown.address, position(unknown.from), position(unknown.to));
}

absl::StatusOr<StopEvent> ReplayTarget::Report(const RunStop& stop, const ResumeRequest& request) {
  StopEvent event = ToStopEvent(stop, request, trace_->manifest().pid);
  if (event.kind == StopKind::kEnd || event.kind == StopKind::kBegin) TellEnd(event);
  if (event.kind == StopKind::kFork || event.kind == StopKind::kVfork) TellFork(event);
  for (const UnknownMemory& unknown : stop.unknown) TellUnknown(unknown);
  Moved(event);
  if (event.kind == StopKind::kSyscallEntry || event.kind == StopKind::kSyscallReturn) {
    TellSyscall(event);
  }
  if (event.kind == StopKind::kExec) event.program = ExecutablePath();
  return event;
}

std::optional<RunStop> ReplayTarget::AtEndOfThread(const ResumeRequest& request) const {
  const int32_t thread = request.thread.tid > 0 ? request.thread.tid : current_;
  if (!request.step || !timeline_->IsAlive(thread)) return std::nullopt;
  const ThreadState& state = timeline_->thread_state(thread);
  const bool forward = request.direction == Direction::kForward;
  if (timeline_->count(thread) != (forward ? state.end_count() : state.begin_count())) {
    return std::nullopt;
  }
  return RunStop{.kind = forward ? RunStopKind::kEnd : RunStopKind::kBegin, .thread = thread};
}

absl::StatusOr<StopEvent> ReplayTarget::Resume(const ResumeRequest& request) {
  if (scratch_ != nullptr) {
    if (request.direction == Direction::kBackward) {
      return StopEvent{.kind = StopKind::kBegin, .thread = Ref(scratch_thread_)};
    }
    if (timeline_->IsAlive(request.thread.tid)) RETURN_IF_ERROR(Redirect(request.thread.tid));
    StopEvent event = scratch_->Resume(request);
    absl::StrAppend(&console_text_, scratch_->TakeText());
    return event;
  }
  suspended_scratch_ = nullptr;
  if (std::optional<RunStop> end = AtEndOfThread(request)) return Report(*end, request);
  registers_.clear();
  running_ = true;
  absl::StatusOr<RunStop> stop = timeline_->Run(ToRunRequest(request, Ref(current_)));
  running_ = false;
  if (!stop.ok()) {
    Moved({.thread = Ref(current_)});
    return std::move(stop).status();
  }
  return Report(*stop, request);
}

absl::Status ReplayTarget::Redirect(int32_t thread) {
  if (thread == scratch_thread_) return absl::OkStatus();
  ASSIGN_OR_RETURN(const RegisterFile registers, Registers(thread));
  scratch_orig_rax_ = OrigRax(thread);
  other_scratches_[scratch_thread_] = scratch_->registers();
  other_scratches_.erase(thread);
  scratch_->SetThread(Ref(thread), registers);
  scratch_thread_ = thread;
  return absl::OkStatus();
}

absl::Status ReplayTarget::Divert(int32_t thread) {
  if (scratch_ != nullptr) return Redirect(thread);
  scratch_orig_rax_ = OrigRax(thread);
  ASSIGN_OR_RETURN(const RegisterFile registers, RecordedRegisters(thread));
  ASSIGN_OR_RETURN(scratch_,
                   ScratchProcess::Create(
                       Ref(thread), registers, timeline_->process().MapsAt(timeline_->moment()),
                       [this, thread](uint64_t address, absl::Span<uint8_t> out) {
                         return timeline_->ReadMemory(thread, address, out).value_or(0);
                       }));
  scratch_thread_ = thread;
  return absl::OkStatus();
}

void ReplayTarget::EndDiversion() {
  other_scratches_.clear();
  scratch_ = nullptr;
  suspended_scratch_ = nullptr;
}

void ReplayTarget::SuspendDiversion() {
  other_scratches_.clear();
  suspended_scratch_ = std::move(scratch_);
}

bool ReplayTarget::ResumeDiversion() {
  if (suspended_scratch_ == nullptr) return false;
  absl::StatusOr<RegisterFile> registers = RecordedRegisters(scratch_thread_);
  if (!registers.ok()) return false;
  scratch_orig_rax_ = OrigRax(scratch_thread_);
  scratch_ = std::move(suspended_scratch_);
  // It ended with the registers it began with, or was set aside in the middle of something.
  scratch_->SetRegisters(*registers);
  return true;
}

absl::Status ReplayTarget::WriteRegister(ThreadRef thread, int number,
                                         absl::Span<const uint8_t> bytes) {
  RETURN_IF_ERROR(CheckThread(thread));
  ASSIGN_OR_RETURN(const RegisterFile before, Registers(thread.tid));
  RegisterFile registers = before;
  if (!DecodeRegister(bytes, number, &registers)) {
    return absl::InvalidArgumentError("no such register, or not of this size");
  }
  int64_t orig_rax = OrigRax(thread.tid);
  if (number == kRegisterOrigRax) std::memcpy(&orig_rax, bytes.data(), sizeof(orig_rax));
  if (registers == before && orig_rax == OrigRax(thread.tid)) return absl::OkStatus();
  RETURN_IF_ERROR(Divert(thread.tid));
  scratch_->SetRegisters(registers);
  scratch_orig_rax_ = orig_rax;
  return absl::OkStatus();
}

absl::Status ReplayTarget::WriteMemory(ThreadRef thread, uint64_t address,
                                       absl::Span<const uint8_t> bytes) {
  RETURN_IF_ERROR(CheckThread(thread));
  const bool began = scratch_ == nullptr;
  if (began) {
    // gdb puts back what it found; that must not begin a diversion.
    std::vector<uint8_t> present(bytes.size());
    absl::StatusOr<size_t> known = ReadMemory(thread, address, absl::MakeSpan(present));
    if (known.ok() && *known == bytes.size() &&
        std::equal(bytes.begin(), bytes.end(), present.begin())) {
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(Divert(thread.tid));
  }
  absl::Status status = scratch_->WriteMemory(address, bytes);
  if (!status.ok() && began) scratch_ = nullptr;
  return status;
}

absl::StatusOr<std::string> ReplayTarget::Monitor(const std::string& command, ThreadRef selected,
                                                  const std::atomic<bool>* interrupt, bool* moved) {
  const uint64_t before = timeline_->moment();
  absl::StatusOr<MonitorResult> result = monitor_.Run(command, selected.tid, interrupt);
  RETURN_IF_ERROR(result.status());
  *moved = timeline_->moment() != before;
  if (*moved) EndDiversion();
  if (result->thread != 0) Moved({.thread = Ref(result->thread)});
  return std::move(result->output);
}

std::string ReplayTarget::TakeConsoleText() { return std::exchange(console_text_, ""); }

absl::Status ReplayTarget::GoTo(const std::string& where, const std::atomic<bool>* interrupt) {
  ASSIGN_OR_RETURN(const int32_t thread, monitor_.GoTo(where, current_, interrupt));
  EndDiversion();
  Moved({.thread = Ref(thread)});
  return absl::OkStatus();
}

}  // namespace hindsight
