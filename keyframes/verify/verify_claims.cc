#include "keyframes/verify/verify_claims.h"

#include <sched.h>
#include <sys/syscall.h>

#include <algorithm>
#include <variant>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace hindsight {
namespace {

constexpr size_t kArguments = 6;
constexpr int kArgumentRegisters[kArguments] = {kRdi, kRsi, kRdx, kR10, kR8, kR9};
constexpr const char* kArgumentNames[kArguments] = {"rdi", "rsi", "rdx", "r10", "r8", "r9"};
// rax in a register file's words.
constexpr uint16_t kRaxWord = 0;

bool IsTransitionEvent(EventKind kind) {
  return kind == EventKind::kSyscall || kind == EventKind::kSignal || kind == EventKind::kExec;
}

uint64_t RaxAfter(const RegisterPatch& patch, const RegisterFile& before) {
  for (size_t i = 0; i < patch.index.size() && i < patch.value.size(); ++i) {
    if (patch.index[i] == kRaxWord) return patch.value[i];
  }
  return before.gpr[kRax];
}

std::string CallDifference(const ProcessEvent& event, const SideEffect& effect,
                           const RegisterFile& before) {
  if (static_cast<uint64_t>(event.number) != before.gpr[kRax]) {
    return absl::StrCat("it says system call ", event.number, ", but rax is ", before.gpr[kRax]);
  }
  if (event.arguments.size() != kArguments) return "it has not six arguments";
  for (size_t i = 0; i < kArguments; ++i) {
    const uint64_t held = before.gpr[kArgumentRegisters[i]];
    if (event.arguments[i] == held) continue;
    return absl::StrFormat("it says argument 0x%x, but %s is 0x%x", event.arguments[i],
                           kArgumentNames[i], held);
  }
  const uint64_t after = RaxAfter(effect.registers, before);
  if (static_cast<uint64_t>(event.result) == after) return "";
  return absl::StrCat("it says result ", event.result, ", but rax becomes ",
                      static_cast<int64_t>(after));
}

uint64_t SequenceOf(const Record& record) {
  if (const auto* effect = std::get_if<SideEffect>(&record.body)) return effect->sequence;
  return std::get<Discontinuity>(record.body).sequence;
}

// After which the kernel or another process may write to memory at any time. (A child of vfork does
// while the thread that made it waits.)
bool LetsOthersWrite(const ProcessEvent& event) {
  if (event.kind == EventKind::kFork) {
    return event.number != SYS_fork && event.number != SYS_clone && !event.arguments.empty() &&
           event.arguments[0] == static_cast<uint64_t>(ForkKind::kClone);
  }
  if (event.kind != EventKind::kSyscall || event.result < 0) return false;
  constexpr uint64_t kSharing = CLONE_VM | CLONE_VFORK | CLONE_THREAD;
  switch (event.number) {
    case SYS_io_setup:
    case SYS_io_uring_setup:
      return true;
    case SYS_clone:
      return !event.arguments.empty() && (event.arguments[0] & kSharing) == CLONE_VM;
    default:
      return false;
  }
}

// The state of things that events lead to, and what it was at full keyframes.
class Turns {
 public:
  struct Turn {
    int32_t thread = 0;
    uint64_t count = 0;
    bool ends = false;  // in the same state
    bool others_write = false;
    bool at_birth = false;
    std::vector<int32_t> being_made;
  };

  explicit Turns(const TraceReader& trace)
      : others_write_(trace.trimmed() != nullptr && trace.trimmed()->others_write),
        at_birth_(trace.manifest().parent_pid != 0 && trace.trimmed() == nullptr) {
    for (const ProcessEvent& event : trace.events()) Add(event);
  }

  const Turn* At(uint64_t keyframe) const {
    const auto turn = turns_.find(keyframe);
    return turn == turns_.end() ? nullptr : &turn->second;
  }

 private:
  void Add(const ProcessEvent& event) {
    others_write_ |= LetsOthersWrite(event);
    switch (event.kind) {
      case EventKind::kExec:
        others_write_ = at_birth_ = false;
        break;
      case EventKind::kSyscall:
        if ((event.number == SYS_clone || event.number == SYS_clone3) && event.result > 0 &&
            !started_.contains(event.result)) {
          being_made_.insert(static_cast<int32_t>(event.result));
        }
        break;
      case EventKind::kFork:
        being_made_.erase(static_cast<int32_t>(event.result));
        break;
      case EventKind::kThreadStart:
        started_.insert(event.thread);
        being_made_.erase(event.thread);
        break;
      case EventKind::kFullKeyframe:
        AddKeyframe(event);
        break;
      case EventKind::kSlice:
        EndTurns(event);
        break;
      default:
        break;
    }
  }

  void AddKeyframe(const ProcessEvent& event) {
    const auto number = static_cast<uint64_t>(event.number);
    turns_[number] = {.thread = event.thread,
                      .count = event.count,
                      .others_write = others_write_,
                      .at_birth = at_birth_,
                      .being_made = {being_made_.begin(), being_made_.end()}};
    open_[event.thread].push_back(number);
  }

  // The thread goes on, after others had their turns.
  void EndTurns(const ProcessEvent& slice) {
    for (const uint64_t number : open_[slice.thread]) {
      turns_[number].ends = turns_[number].count == slice.count;
    }
    open_.erase(slice.thread);
  }

  bool others_write_;
  bool at_birth_;
  absl::flat_hash_set<int64_t> started_;
  absl::flat_hash_set<int32_t> being_made_;
  absl::flat_hash_map<uint64_t, Turn> turns_;                 // by number of the full keyframe
  absl::flat_hash_map<int32_t, std::vector<uint64_t>> open_;  // since each thread's last slice
};

}  // namespace

TraceClaims::TraceClaims(const TraceReader& trace) : trace_(trace) {
  for (const ProcessEvent& event : trace.events()) {
    if (IsTransitionEvent(event.kind)) transitions_[event.thread].push_back(&event);
    if (event.kind == EventKind::kMemoryUnknown) unknown_.insert({event.thread, event.count});
  }
  for (auto& [thread, events] : transitions_) {
    std::stable_sort(
        events.begin(), events.end(),
        [](const ProcessEvent* a, const ProcessEvent* b) { return a->count < b->count; });
  }
  FindKeyframes();
}

void TraceClaims::FindKeyframes() {
  const Turns turns(trace_);
  for (const auto& keyframe : trace_.full_keyframes()) {
    const Turns::Turn* const turn = turns.At(keyframe->number());
    for (const FullKeyframe::ThreadState& state : keyframe->threads()) {
      KeyframeStart start = {.keyframe = keyframe.get(), .state = &state};
      if (turn != nullptr && turn->thread == state.thread) {
        start.has_turn = true;
        start.turn_ends = turn->ends;
        start.others_write = turn->others_write || IsThinnedAt(keyframe->number());
        start.at_birth = turn->at_birth;
        start.being_made = turn->being_made;
      }
      keyframe_starts_[{state.thread, state.segment}].push_back(std::move(start));
    }
  }
}

std::optional<EventKind> TraceClaims::KindFor(const Record& record) {
  if (const auto* effect = std::get_if<SideEffect>(&record.body)) {
    if (effect->kind == SideEffectKind::kSyscall) return EventKind::kSyscall;
  } else if (const auto* jump = std::get_if<Discontinuity>(&record.body)) {
    if (jump->kind == DiscontinuityKind::kSignal) return EventKind::kSignal;
    if (jump->kind == DiscontinuityKind::kExec) return EventKind::kExec;
  }
  return std::nullopt;
}

absl::Span<const ProcessEvent* const> TraceClaims::Transitions(int32_t thread, uint64_t first_count,
                                                               uint64_t end_count) const {
  const auto found = transitions_.find(thread);
  if (found == transitions_.end()) return {};
  // The event of a transition has the count of the state it leads to.
  const auto after = [](uint64_t count, const ProcessEvent* event) { return count < event->count; };
  const auto& all = found->second;
  const auto begin = std::upper_bound(all.begin(), all.end(), first_count, after);
  const auto end = std::upper_bound(begin, all.end(), end_count, after);
  return absl::MakeConstSpan(all).subspan(begin - all.begin(), end - begin);
}

std::string TraceClaims::Difference(const ProcessEvent& event, const Record& record,
                                    const RegisterFile& before) {
  if (event.sequence != SequenceOf(record)) {
    return absl::StrCat("it says sequence number ", event.sequence, ", the record says ",
                        SequenceOf(record));
  }
  if (const auto* effect = std::get_if<SideEffect>(&record.body)) {
    return CallDifference(event, *effect, before);
  }
  const auto& jump = std::get<Discontinuity>(record.body);
  if (jump.kind != DiscontinuityKind::kSignal) return "";
  if (event.number != jump.signal) {
    return absl::StrCat("it says signal ", event.number, ", the record says ", jump.signal);
  }
  return event.text == jump.siginfo ? "" : "its siginfo is not that of the record";
}

const std::vector<TraceClaims::KeyframeStart>& TraceClaims::KeyframesAt(int32_t thread,
                                                                        uint64_t segment) const {
  static const std::vector<KeyframeStart> kNone;
  const auto found = keyframe_starts_.find({thread, segment});
  return found == keyframe_starts_.end() ? kNone : found->second;
}

bool TraceClaims::IsThinnedAt(uint64_t keyframe) const {
  return trace_.trimmed() != nullptr && keyframe < trace_.trimmed()->whole_keyframe;
}

// The trace says that it does not have this segment any more.
bool TraceClaims::IsLost(int32_t thread, uint64_t segment) const {
  if (trace_.trimmed() == nullptr || !trace_.trimmed()->thinned()) return false;
  const auto& firsts = trace_.trimmed()->first_segments;
  return std::any_of(firsts.begin(), firsts.end(), [&](const auto& first) {
    return first.first == thread && segment < first.second;
  });
}

absl::Status TraceClaims::Differs(const ProcessEvent& event, const std::string& what) const {
  return absl::DataLossError(absl::StrCat(trace_.directory(), "/events: thread ", event.thread,
                                          ", count ", event.count, ": ", what));
}

absl::Status TraceClaims::CheckProcess(const std::map<int32_t, ThreadEnd>& ends) const {
  RETURN_IF_ERROR(CheckStarts());
  RETURN_IF_ERROR(CheckEnds(ends));
  RETURN_IF_ERROR(CheckForks());
  return CheckKeyframes();
}

absl::Status TraceClaims::CheckStarts() const {
  absl::flat_hash_map<int32_t, const ProcessEvent*> starts;
  for (const ProcessEvent& event : trace_.events()) {
    if (event.kind != EventKind::kThreadStart) continue;
    starts[event.thread] = &event;
    if (trace_.segments(event.thread).empty() && !IsLost(event.thread, 0)) {
      return Differs(event, "the thread starts, but has no segments");
    }
  }
  // A recorder that dies may leave the first state of a thread without the event.
  if (trace_.manifest().state != TraceState::kComplete) return absl::OkStatus();
  for (const int32_t thread : trace_.threads()) {
    const SegmentInfo& first = trace_.segments(thread).front();
    const auto start = starts.find(thread);
    if (start == starts.end()) {
      return absl::DataLossError(
          absl::StrCat(trace_.directory(), "/events: no start of thread ", thread));
    }
    if (first.number == 0 && start->second->count != first.first_count) {
      return Differs(*start->second,
                     absl::StrCat("the thread starts, but its first state is ", first.first_count));
    }
  }
  return absl::OkStatus();
}

absl::Status TraceClaims::CheckEnds(const std::map<int32_t, ThreadEnd>& ends) const {
  absl::flat_hash_map<int32_t, const ProcessEvent*> last;  // exit, or gap
  for (const ProcessEvent& event : trace_.events()) {
    const bool gap = event.kind == EventKind::kGap;
    if (gap || event.kind == EventKind::kThreadExit) last[event.thread] = &event;
  }
  if (trace_.manifest().state != TraceState::kComplete) return absl::OkStatus();
  for (const auto& [thread, end] : ends) {
    const auto event = last.find(thread);
    if (!end.ended) {
      return absl::DataLossError(absl::StrCat(trace_.directory(), ": thread ", thread, ", segment ",
                                              end.segment,
                                              " is not ended, but the recording is complete"));
    }
    if (event != last.end() && event->second->count == end.count) continue;
    return absl::DataLossError(absl::StrCat(
        trace_.directory(), "/events: thread ", thread, " ends at count ", end.count,
        event == last.end() ? ", but no event says so"
                            : absl::StrCat(", but the event says ", event->second->count)));
  }
  return absl::OkStatus();
}

absl::Status TraceClaims::CheckForks() const {
  for (const ProcessEvent& fork : trace_.events()) {
    if (fork.kind != EventKind::kFork) continue;
    const auto calls = Transitions(fork.thread, fork.count == 0 ? 0 : fork.count - 1, fork.count);
    const bool known = std::any_of(calls.begin(), calls.end(), [&](const ProcessEvent* call) {
      return call->count == fork.count && call->number == fork.number;
    });
    if (!known) return Differs(fork, "a fork, but no system call that made it");
  }
  return absl::OkStatus();
}

absl::Status TraceClaims::CheckKeyframes() const {
  absl::flat_hash_set<uint64_t> listed, stored;
  for (const ProcessEvent& event : trace_.events()) {
    if (event.kind == EventKind::kFullKeyframe) listed.insert(static_cast<uint64_t>(event.number));
  }
  for (const auto& keyframe : trace_.full_keyframes()) {
    stored.insert(keyframe->number());
    // A recorder that dies may leave a full keyframe without the event.
    if (trace_.manifest().state == TraceState::kComplete && !listed.contains(keyframe->number())) {
      return absl::DataLossError(absl::StrCat(
          trace_.directory(), "/events: no event records full keyframe ", keyframe->number()));
    }
    RETURN_IF_ERROR(CheckSegmentsOf(*keyframe));
  }
  for (const ProcessEvent& event : trace_.events()) {
    if (event.kind == EventKind::kFullKeyframe &&
        !stored.contains(static_cast<uint64_t>(event.number))) {
      return Differs(event, absl::StrCat("full keyframe ", event.number, " is not in the trace"));
    }
  }
  return absl::OkStatus();
}

// The segments that start at it are compared with it where they are replayed.
absl::Status TraceClaims::CheckSegmentsOf(const FullKeyframe& keyframe) const {
  // Of a trace that is being written, newer keyframes were read than segments.
  if (trace_.manifest().state == TraceState::kRecording) return absl::OkStatus();
  for (const FullKeyframe::ThreadState& state : keyframe.threads()) {
    const std::vector<SegmentInfo>& segments = trace_.segments(state.thread);
    const bool known =
        std::any_of(segments.rbegin(), segments.rend(),
                    [&](const SegmentInfo& info) { return info.number == state.segment; });
    const bool lost = IsThinnedAt(keyframe.number()) && IsLost(state.thread, state.segment);
    if (!known && !lost) {
      return absl::DataLossError(absl::StrCat(
          trace_.directory(), ": full keyframe ", keyframe.number(), " says that segment ",
          state.segment, " of thread ", state.thread, " starts there, which is not in the trace"));
    }
  }
  return absl::OkStatus();
}

}  // namespace hindsight
