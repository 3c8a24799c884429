#include "server/target/replay_target.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/target/target_description.h"

namespace hindsight {

absl::StatusOr<std::unique_ptr<ReplayTarget>> ReplayTarget::Open(const TraceReader* trace,
                                                                 CoreFiles* files) {
  ASSIGN_OR_RETURN(std::unique_ptr<Timeline> timeline, Timeline::Open(trace));
  // Of a ring by threads: where all threads and memory are there.
  RETURN_IF_ERROR(
      timeline->SeekTo(std::min(timeline->process().whole_moment(), timeline->end_moment())));
  return std::unique_ptr<ReplayTarget>(new ReplayTarget(trace, std::move(timeline), files));
}

ReplayTarget::ReplayTarget(const TraceReader* trace, std::unique_ptr<Timeline> timeline,
                           CoreFiles* files)
    : trace_(trace),
      timeline_(std::move(timeline)),
      view_(trace, timeline_.get()),
      diverted_(&view_),
      monitor_(trace, timeline_.get(), &view_, files),
      notes_(trace, timeline_.get()) {
  Moved({.thread = timeline_->current_thread()});
}

void ReplayTarget::Moved(RunStop stop) {
  registers_.clear();
  current_ = stop.thread;
  // A thread that has ended cannot be selected.
  if (!timeline_->IsAlive(current_)) current_ = timeline_->current_thread();
  last_stop_ = std::move(stop);
}

std::vector<ThreadRef> ReplayTarget::threads() {
  std::vector<ThreadRef> threads;
  for (const int32_t thread : timeline_->threads()) threads.push_back(Ref(thread));
  return threads;
}

ThreadRef ReplayTarget::current_thread() {
  return Ref(diverted_.active() ? diverted_.thread() : current_);
}

std::string ReplayTarget::ThreadName(ThreadRef thread) { return view_.ThreadName(thread.tid); }

std::optional<int> ReplayTarget::ThreadProcessor(ThreadRef thread) {
  return view_.ThreadProcessor(thread.tid);
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
  ASSIGN_OR_RETURN(const RegisterFile registers, view_.Registers(thread));
  // Not while conditions of breakpoints ask, since the timeline moves on.
  if (!running_) registers_[thread] = registers;
  return registers;
}

absl::StatusOr<RegisterFile> ReplayTarget::Registers(int32_t thread) {
  if (diverted_.HasRegistersOf(thread)) return diverted_.Registers(thread);
  return RecordedRegisters(thread);
}

int64_t ReplayTarget::SyscallNumber(int32_t thread) const {
  return diverted_.HasRegistersOf(thread) ? diverted_.SyscallNumber(thread)
                                          : view_.SyscallNumber(thread);
}

absl::StatusOr<std::string> ReplayTarget::ReadRegister(ThreadRef thread, int number) {
  RETURN_IF_ERROR(CheckThread(thread));
  if (number < 0 || number >= kRegisterCount) return absl::NotFoundError("no such register");
  if (number == kRegisterOrigRax) {
    int64_t value = SyscallNumber(thread.tid);
    return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  // Clients ask for one register after the other, so none of this copies all of them.
  if (diverted_.HasRegistersOf(thread.tid)) {
    return EncodeRegister(diverted_.Registers(thread.tid), number);
  }
  if (auto known = registers_.find(thread.tid); known != registers_.end()) {
    return EncodeRegister(known->second, number);
  }
  ASSIGN_OR_RETURN(const RegisterFile registers, RecordedRegisters(thread.tid));
  return EncodeRegister(registers, number);
}

absl::StatusOr<size_t> ReplayTarget::ReadMemory(ThreadRef thread, uint64_t address,
                                                absl::Span<uint8_t> out) {
  RETURN_IF_ERROR(CheckThread(thread));
  if (diverted_.exists()) return diverted_.ReadMemory(thread.tid, address, out);
  return view_.ReadMemory(thread.tid, address, out);
}

bool ReplayTarget::ReadAll(ThreadRef thread, uint64_t address, absl::Span<uint8_t> out) {
  absl::StatusOr<size_t> known = ReadMemory(thread, address, out);
  return known.ok() && *known == out.size();
}

std::vector<MemoryRegion> ReplayTarget::Regions() {
  std::vector<MemoryRegion> regions;
  for (const MapRegion& region : view_.Regions()) {
    regions.push_back({region.start, region.end, region.protection, region.name});
  }
  return regions;
}

absl::StatusOr<std::string> ReplayTarget::SigInfo(ThreadRef thread) {
  RETURN_IF_ERROR(CheckThread(thread));
  return view_.SigInfo(thread.tid);
}

// A function called from gdb may have loaded libraries: what follows reads through the copy.
absl::StatusOr<std::vector<Library>> ReplayTarget::Libraries(uint64_t* main_link_map) {
  LinkMap map = view_.Libraries([this](uint64_t address, absl::Span<uint8_t> out) {
    return ReadAll(current_thread(), address, out);
  });
  if (!timeline_->process().IsWhole(timeline_->moment())) {
    map = MappedHere(whole_libraries_);
  } else if (timeline_->process().whole_moment() != 0) {
    whole_libraries_ = map;
  }
  *main_link_map = map.main;
  return std::move(map.libraries);
}

// Where memory is missing so is the linker's list: of those that it had later these are there.
LinkMap ReplayTarget::MappedHere(LinkMap map) const {
  const ProcessState& process = timeline_->process();
  std::erase_if(map.libraries, [&](const Library& library) {
    const MapRegion* const then = process.maps().Find(process.whole_moment(), library.load_address);
    const MapRegion* const now = process.maps().Find(timeline_->moment(), library.load_address);
    return then == nullptr || now == nullptr || then->start != now->start ||
           then->inode != now->inode || then->name != now->name;
  });
  return map;
}

absl::StatusOr<std::string> ReplayTarget::ReadLink(const std::string& path) {
  return view_.ReadLink(path, [this](uint64_t address, absl::Span<uint8_t> out) {
    return ReadAll(current_thread(), address, out);
  });
}

absl::StatusOr<std::string> ReplayTarget::FileContents(const std::string& path) {
  return view_.FileContents(path, [this](uint64_t address, absl::Span<uint8_t> out) {
    return ReadAll(current_thread(), address, out);
  });
}

absl::StatusOr<uint64_t> ReplayTarget::TlsAddress(ThreadRef thread, uint64_t offset,
                                                  uint64_t link_map) {
  RETURN_IF_ERROR(CheckThread(thread));
  ASSIGN_OR_RETURN(const RegisterFile registers, Registers(thread.tid));
  return view_.TlsAddress(registers.fs_base, offset, link_map,
                          [this, thread](uint64_t address, absl::Span<uint8_t> out) {
                            return ReadAll(thread, address, out);
                          });
}

absl::StatusOr<RunStop> ReplayTarget::Report(RunStop stop, bool of_threads) {
  // Where a thread runs alone its ends are those of the run.
  if (!of_threads && stop.kind == StopKind::kThreadExit) stop.kind = StopKind::kEnd;
  if (!of_threads && stop.kind == StopKind::kThreadStart) stop.kind = StopKind::kBegin;
  notes_.Add(stop, last_stop_);
  Moved(stop);
  return stop;
}

std::optional<RunStop> ReplayTarget::AtEndOfThread(const RunRequest& request) const {
  if (!request.step || !timeline_->IsAlive(request.thread)) return std::nullopt;
  const ThreadState& state = timeline_->thread_state(request.thread);
  const bool forward = request.direction == Direction::kForward;
  if (timeline_->count(request.thread) != (forward ? state.end_count() : state.begin_count())) {
    return std::nullopt;
  }
  return RunStop{.kind = forward ? StopKind::kEnd : StopKind::kBegin, .thread = request.thread};
}

absl::StatusOr<RunStop> ReplayTarget::ResumeDiverted(const RunRequest& request) {
  if (request.direction == Direction::kBackward) {
    return RunStop{.kind = StopKind::kBegin, .thread = diverted_.thread()};
  }
  if (timeline_->IsAlive(request.thread)) RETURN_IF_ERROR(diverted_.Begin(request.thread));
  return diverted_.Run(request, notes_.text());
}

absl::StatusOr<RunStop> ReplayTarget::Resume(RunRequest request) {
  if (diverted_.active()) return ResumeDiverted(request);
  diverted_.End();
  const bool of_threads = request.stop_for_threads;
  if (request.thread <= 0) request.thread = current_;
  request.stop_for_threads |= request.only_thread;
  if (std::optional<RunStop> end = AtEndOfThread(request)) return Report(*end, of_threads);
  registers_.clear();
  running_ = true;
  absl::StatusOr<RunStop> stop = timeline_->Run(request);
  running_ = false;
  if (!stop.ok()) {
    Moved({.thread = current_});
    return std::move(stop).status();
  }
  return Report(*std::move(stop), of_threads);
}

absl::Status ReplayTarget::WriteRegister(ThreadRef thread, int number,
                                         absl::Span<const uint8_t> bytes) {
  RETURN_IF_ERROR(CheckThread(thread));
  ASSIGN_OR_RETURN(const RegisterFile before, Registers(thread.tid));
  RegisterFile registers = before;
  if (!DecodeRegister(bytes, number, &registers)) {
    return absl::InvalidArgumentError("no such register, or not of this size");
  }
  const int64_t number_before = SyscallNumber(thread.tid);
  int64_t orig_rax = number_before;
  if (number == kRegisterOrigRax) std::memcpy(&orig_rax, bytes.data(), sizeof(orig_rax));
  if (registers == before && orig_rax == number_before) return absl::OkStatus();
  RETURN_IF_ERROR(diverted_.Begin(thread.tid));
  diverted_.SetRegisters(registers, orig_rax);
  return absl::OkStatus();
}

absl::Status ReplayTarget::WriteMemory(ThreadRef thread, uint64_t address,
                                       absl::Span<const uint8_t> bytes) {
  RETURN_IF_ERROR(CheckThread(thread));
  const bool begins = !diverted_.active();
  if (begins) {
    // gdb puts back what it found; that must not begin a diversion.
    std::vector<uint8_t> present(bytes.size());
    absl::StatusOr<size_t> known = ReadMemory(thread, address, absl::MakeSpan(present));
    if (known.ok() && *known == bytes.size() &&
        std::equal(bytes.begin(), bytes.end(), present.begin())) {
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(diverted_.Begin(thread.tid));
  }
  absl::Status status = diverted_.WriteMemory(address, bytes);
  if (!status.ok() && begins) diverted_.Abandon();
  return status;
}

absl::StatusOr<std::string> ReplayTarget::Monitor(const std::string& command, ThreadRef selected,
                                                  const std::atomic<bool>* interrupt, bool* moved) {
  const uint64_t before = timeline_->moment();
  absl::StatusOr<MonitorResult> result = monitor_.Run(command, selected.tid, interrupt);
  RETURN_IF_ERROR(result.status());
  *moved = timeline_->moment() != before;
  if (*moved) EndDiversion();
  if (result->thread != 0) Moved({.thread = result->thread});
  return std::move(result->output);
}

absl::Status ReplayTarget::GoTo(const std::string& where, const std::atomic<bool>* interrupt) {
  ASSIGN_OR_RETURN(const int32_t thread, monitor_.GoTo(where, current_, interrupt));
  EndDiversion();
  Moved({.thread = thread});
  return absl::OkStatus();
}

}  // namespace hindsight
