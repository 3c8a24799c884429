#include "server/target/replay_target.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

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
    : ViewedTarget(trace),
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

ThreadRef ReplayTarget::current_thread() {
  return Ref(diverted_.active() ? diverted_.thread() : current_);
}

absl::StatusOr<const RegisterFile*> ReplayTarget::RegistersOf(int32_t thread) {
  if (diverted_.HasRegistersOf(thread)) return &diverted_.Registers(thread);
  // Not while conditions of breakpoints ask, since the timeline moves on.
  if (const auto known = registers_.find(thread); known != registers_.end() && !running_) {
    return &known->second;
  }
  ASSIGN_OR_RETURN(const RegisterFile registers, view_.Registers(thread));
  return &(registers_[thread] = registers);
}

int64_t ReplayTarget::SyscallNumberOf(int32_t thread) {
  return diverted_.HasRegistersOf(thread) ? diverted_.SyscallNumber(thread)
                                          : view_.SyscallNumber(thread);
}

absl::StatusOr<size_t> ReplayTarget::ReadMemoryOf(int32_t thread, uint64_t address,
                                                  absl::Span<uint8_t> out) {
  if (diverted_.exists()) return diverted_.ReadMemory(thread, address, out);
  return view_.ReadMemory(thread, address, out);
}

absl::StatusOr<std::vector<Library>> ReplayTarget::Libraries(uint64_t* main_link_map) {
  LinkMap map = LinkedHere();
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
  return diverted_.WriteRegister(thread.tid, number, bytes);
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
