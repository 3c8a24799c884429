#include "keyframes/verify/verify_writers.h"

#include <sched.h>
#include <sys/syscall.h>

#include <algorithm>
#include <variant>
#include <vector>

#include "base/status_macros.h"
#include "base/waiting_calls.h"
#include "isa/registers.h"

namespace hindsight {
namespace {

// Whether the call that a thread is about to make, by its registers, stores nothing.
bool NextCallStoresNothing(const std::vector<uint64_t>& registers) {
  if (registers.size() <= kR15) return false;
  const uint64_t arguments[] = {registers[kRdi], registers[kRsi], registers[kRdx],
                                registers[kR10], registers[kR8],  registers[kR9]};
  return StoresNothing(static_cast<int64_t>(registers[kRax]), arguments);
}

bool IsOfPage(const Record& record, uint64_t* page) {
  if (const auto* import = std::get_if<PageImport>(&record.body)) {
    *page = import->address;
  } else if (const auto* left = std::get_if<PageLeft>(&record.body)) {
    *page = left->address;
  } else {
    return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<bool> OtherWriters::MayHaveWritten(uint64_t page) {
  if (!searched_) RETURN_IF_ERROR(Find());
  searched_ = true;
  return anywhere_ || pages_.contains(page);
}

absl::Status OtherWriters::Find() {
  anywhere_ = start_->others_write || (start_->at_birth && IsBornWithSharedMemory());
  for (const FullKeyframe::ThreadState& state : start_->keyframe->threads()) {
    if (anywhere_) return absl::OkStatus();
    if (state.thread != start_->state->thread) RETURN_IF_ERROR(AddThread(state));
  }
  for (const int32_t thread : start_->being_made) {
    const std::vector<SegmentInfo>& segments = trace_->segments(thread);
    if (segments.empty()) continue;
    RETURN_IF_ERROR(AddImports(thread, segments.front().number, segments.front().first_count));
  }
  return absl::OkStatus();
}

absl::Status OtherWriters::AddThread(const FullKeyframe::ThreadState& state) {
  const auto events = claims_->Transitions(state.thread, state.count, state.count + 1);
  const ProcessEvent* const event = events.empty() ? nullptr : events.front();
  if (event == nullptr) {
    // It goes on with an instruction, unless nothing follows: then the call did not return.
    const uint64_t number = trace_->segments(state.thread).back().number;
    ASSIGN_OR_RETURN(const auto last, trace_->LoadSegment(state.thread, number));
    const bool ends = last->end_count() == state.count;
    anywhere_ = ends && !NextCallStoresNothing(state.registers);
    return absl::OkStatus();
  }
  if (event->kind == EventKind::kSyscall && StoresNothing(event->number, event->arguments)) {
    return absl::OkStatus();
  }
  const bool failed = event->result < 0 && event->result > -4096;
  if (event->kind != EventKind::kSyscall || failed || MakesProcess(*event) ||
      claims_->IsUnknownAt(state.thread, state.count + 1)) {
    anywhere_ = true;
    return absl::OkStatus();
  }
  // One that waits may begin segments at several keyframes in the same state.
  const std::vector<SegmentInfo>& segments = trace_->segments(state.thread);
  const auto after =
      std::upper_bound(segments.begin(), segments.end(), state.count,
                       [](uint64_t count, const SegmentInfo& s) { return count < s.first_count; });
  if (after == segments.begin()) return absl::OkStatus();
  return AddImports(state.thread, std::prev(after)->number, state.count + 1);
}

// A thread waits in such a call only while the child uses its memory (vfork).
bool OtherWriters::MakesProcess(const ProcessEvent& call) const {
  const bool makes =
      call.number == SYS_vfork || call.number == SYS_clone || call.number == SYS_clone3;
  return makes && trace_->segments(static_cast<int32_t>(call.result)).empty();
}

absl::Status OtherWriters::AddImports(int32_t thread, uint64_t segment, uint64_t count) {
  ASSIGN_OR_RETURN(const auto loaded, trace_->LoadSegment(thread, segment));
  for (const Record& record : loaded->records()) {
    if (record.count > count) break;
    uint64_t page = 0;
    if (record.count == count && IsOfPage(record, &page)) pages_.insert(page);
  }
  return absl::OkStatus();
}

// Until it executes a program, a process may use the memory of the one that made it.
bool OtherWriters::IsBornWithSharedMemory() const {
  const Manifest& manifest = trace_->manifest();
  const auto files = trace_->files().Parent(manifest.parent_directory);
  if (!files.ok()) return true;
  const auto parent = TraceReader::Open(*files);
  if (!parent.ok()) return true;
  const std::vector<ProcessEvent>& events = (*parent)->events();
  const auto fork = std::find_if(events.begin(), events.end(), [&](const ProcessEvent& event) {
    return event.kind == EventKind::kFork && event.result == manifest.pid &&
           event.thread == manifest.parent_thread && event.count == manifest.parent_count + 1;
  });
  if (fork == events.end() || fork->arguments.empty()) return true;
  if (fork->arguments[0] == static_cast<uint64_t>(ForkKind::kFork)) return false;
  if (fork->arguments[0] == static_cast<uint64_t>(ForkKind::kVfork)) return true;
  // The C library's fork() is a clone: its flags say what it shares.
  return std::none_of(events.begin(), events.end(), [&](const ProcessEvent& call) {
    return call.kind == EventKind::kSyscall && call.number == SYS_clone &&
           call.thread == fork->thread && call.count == fork->count && !call.arguments.empty() &&
           (call.arguments[0] & CLONE_VM) == 0;
  });
}

}  // namespace hindsight
