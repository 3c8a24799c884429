#include "keyframes/verify/verify_segment.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "keyframes/state/thread_state.h"
#include "keyframes/verify/verify_next.h"
#include "tracefmt/memory_hash.h"

namespace hindsight {
namespace {

// A hash of more than this was not written by a recorder.
constexpr uint64_t kMaxHashedBytes = 64 << 20;

const char* NameOf(EventKind kind) {
  switch (kind) {
    case EventKind::kSyscall:
      return "system call";
    case EventKind::kSignal:
      return "signal";
    default:
      return "exec";
  }
}

bool EndsWithExec(const Segment& segment) {
  return std::any_of(segment.records().rbegin(), segment.records().rend(),
                     [&](const Record& record) {
                       const auto* jump = std::get_if<Discontinuity>(&record.body);
                       return jump != nullptr && jump->kind == DiscontinuityKind::kExec;
                     });
}

// A program that could not be executed has had a complete list made, too; but others follow that.
const Record* FindShared(const Segment& segment) {
  const auto is_list = [](const Record& record) {
    return std::holds_alternative<UsedPages>(record.body);
  };
  const auto& records = segment.records();
  const auto last = std::find_if(records.rbegin(), records.rend(), is_list);
  if (last == records.rend() || last->count == segment.end_count()) return nullptr;
  return std::get<UsedPages>(last->body).complete ? &*last : nullptr;
}

}  // namespace

SegmentCheck::SegmentCheck(const TraceReader* trace, const TraceClaims* claims,
                           SegmentReplay* replay, Advance advance)
    : trace_(trace),
      claims_(claims),
      replay_(replay),
      advance_(std::move(advance)),
      transitions_(claims->Transitions(replay->segment().info().thread,
                                       replay->segment().info().first_count,
                                       replay->segment().end_count())) {}

absl::Status SegmentCheck::Run() {
  RETURN_IF_ERROR(CheckKeyframes());
  const Segment& segment = replay_->segment();
  shared_ = FindShared(segment);
  for (const Record& record : segment.records()) {
    // Of the states after the last one that a dead recorder's segment gets to.
    if (record.count > segment.end_count()) break;
    RETURN_IF_ERROR(CheckRecord(record));
  }
  RETURN_IF_ERROR(advance_(segment.end_count()));
  RETURN_IF_ERROR(CheckKeyframesAtEnd());
  RETURN_IF_ERROR(CheckNextSegment());
  return CheckEventsLeft();
}

absl::Status SegmentCheck::CheckNextSegment() {
  if (EndsWithExec(replay_->segment())) return absl::OkStatus();
  ASSIGN_OR_RETURN(const NextSegmentCheck check, CompareWithNextSegment(*trace_, *replay_));
  counts_.memory_ranges += check.pages;
  counts_.memory_bytes += check.pages * kPageBytes;
  if (check.difference.empty()) return absl::OkStatus();
  return Differs(replay_->count(), check.difference);
}

// The segment may start at a full keyframe.
absl::Status SegmentCheck::CheckKeyframes() {
  const SegmentInfo& info = replay_->segment().info();
  for (const TraceClaims::KeyframeStart& start : claims_->KeyframesAt(info.thread, info.number)) {
    RETURN_IF_ERROR(CheckState(*start.keyframe, *start.state));
    // Pages imported in the first state were read from the process when the keyframe was: nothing
    // has run between, unless that turn ended.
    if (!start.has_turn || start.turn_ends) continue;
    OtherWriters others(trace_, claims_, &start);
    for (const uint64_t page : replay_->held_pages()) {
      RETURN_IF_ERROR(CheckPage(*start.keyframe, page, &others));
    }
  }
  return absl::OkStatus();
}

// And end at one: what replay knows then, the keyframe must have.
absl::Status SegmentCheck::CheckKeyframesAtEnd() {
  const Segment& segment = replay_->segment();
  // Older recorders did not log what they left; after an exec memory is another program's.
  if (!trace_->manifest().totals.has_value() || EndsWithExec(segment)) return absl::OkStatus();
  const SegmentInfo& info = segment.info();
  for (const auto& start : claims_->KeyframesAt(info.thread, info.number + 1)) {
    if (!start.has_turn || start.state->count != segment.end_count()) continue;
    OtherWriters others(trace_, claims_, &start);
    for (const uint64_t page : replay_->held_pages()) {
      if (left_.contains(page)) continue;
      RETURN_IF_ERROR(CheckPage(*start.keyframe, page, &others));
    }
  }
  return absl::OkStatus();
}

absl::Status SegmentCheck::CheckState(const FullKeyframe& keyframe,
                                      const FullKeyframe::ThreadState& state) {
  const Segment& segment = replay_->segment();
  ++counts_.keyframe_states;
  if (state.count != segment.info().first_count) {
    return Differs(segment.info().first_count,
                   absl::StrCat("full keyframe ", keyframe.number(),
                                " says that the segment begins at count ", state.count));
  }
  if (state.registers == segment.registers()) return absl::OkStatus();
  return Differs(state.count, absl::StrCat("full keyframe ", keyframe.number(),
                                           " has other registers than the segment begins with"));
}

absl::Status SegmentCheck::CheckPage(const FullKeyframe& keyframe, uint64_t page,
                                     OtherWriters* others) {
  std::array<uint8_t, kPageBytes> saved, held;
  const absl::Status read = keyframe.ReadPage(page, absl::MakeSpan(saved));
  if (absl::IsNotFound(read)) return absl::OkStatus();
  RETURN_IF_ERROR(read);
  if (!replay_->ReadHeld(page, absl::MakeSpan(held))) return absl::OkStatus();
  const auto [at_saved, at_held] = std::mismatch(saved.begin(), saved.end(), held.begin());
  const bool equal = at_saved == saved.end();
  ASSIGN_OR_RETURN(const bool may_differ,
                   equal ? absl::StatusOr<bool>(true) : others->MayHaveWritten(page));
  checked_pages_.push_back({keyframe.number(), page, equal});
  if (may_differ) return absl::OkStatus();
  return Differs(
      replay_->count(),
      absl::StrFormat("full keyframe %d has byte 0x%02x at address 0x%x, but the thread "
                      "found 0x%02x there",
                      keyframe.number(), *at_saved, page + (at_saved - saved.begin()), *at_held));
}

absl::Status SegmentCheck::CheckRecord(const Record& record) {
  if (const auto* left = std::get_if<PageLeft>(&record.body)) {
    left_.insert(left->address);
  } else if (const auto* page = std::get_if<PageImport>(&record.body)) {
    left_.erase(page->address);
  } else if (&record == shared_) {
    // The thread knows a page again when it looks at it the next time.
    RETURN_IF_ERROR(advance_(record.count));
    left_.insert(replay_->held_pages().begin(), replay_->held_pages().end());
  } else if (const auto* memory = std::get_if<MemoryHash>(&record.body)) {
    RETURN_IF_ERROR(advance_(record.count));
    return CheckMemory(*memory);
  } else if (const std::optional<EventKind> kind = TraceClaims::KindFor(record)) {
    RETURN_IF_ERROR(advance_(record.count));
    return CheckTransition(record, *kind);
  }
  return absl::OkStatus();
}

absl::Status SegmentCheck::CheckMemory(const MemoryHash& memory) {
  const uint64_t last_page = PageOf(memory.address + memory.size_bytes - 1);
  bool known = memory.size_bytes != 0 && memory.size_bytes <= kMaxHashedBytes;
  for (uint64_t page = PageOf(memory.address); known; page += kPageBytes) {
    known = !left_.contains(page);
    if (page == last_page) break;
  }
  std::vector<uint8_t> bytes(known ? memory.size_bytes : 0);
  if (!known || !replay_->ReadHeld(memory.address, absl::MakeSpan(bytes))) {
    ++counts_.memory_ranges_unknown;
    return absl::OkStatus();
  }
  ++counts_.memory_ranges;
  counts_.memory_bytes += memory.size_bytes;
  const uint64_t hash = HashMemory(bytes);
  if (hash == memory.hash) return absl::OkStatus();
  return Differs(replay_->count(),
                 absl::StrFormat("the %d bytes at address 0x%x hash to %016x, "
                                 "recorded was %016x",
                                 memory.size_bytes, memory.address, hash, memory.hash));
}

absl::Status SegmentCheck::CheckTransition(const Record& record, EventKind kind) {
  // Of a trace that is being written, newer records were read than events.
  const bool may_lack = trace_->manifest().state == TraceState::kRecording;
  const ProcessEvent* event =
      next_event_ < transitions_.size() ? transitions_[next_event_] : nullptr;
  if (event == nullptr && may_lack) return absl::OkStatus();
  if (event != nullptr && event->count <= record.count) return CheckEventsLeft();
  if (event == nullptr || event->count > record.count + 1 || event->kind != kind) {
    return Differs(record.count, absl::StrCat("no event records this ", NameOf(kind)));
  }
  ++next_event_;
  ++counts_.events;
  const std::string what = TraceClaims::Difference(*event, record, replay_->registers());
  if (what.empty()) return absl::OkStatus();
  return Differs(record.count, absl::StrCat("the event of this ", NameOf(kind), ": ", what));
}

absl::Status SegmentCheck::CheckEventsLeft() const {
  if (next_event_ >= transitions_.size()) return absl::OkStatus();
  const ProcessEvent& event = *transitions_[next_event_];
  return Differs(event.count - 1,
                 absl::StrCat("an event records a ", NameOf(event.kind), ", but there is none"));
}

absl::Status SegmentCheck::Differs(uint64_t count, const std::string& what) const {
  const SegmentInfo& info = replay_->segment().info();
  std::string position;
  if (auto thread = ThreadState::Create(trace_, info.thread); thread.ok()) {
    position = absl::StrCat(", position ", ToString(thread->PositionAt(count)));
  }
  return absl::DataLossError(absl::StrFormat("%s: thread %d, segment %d differs at count %d%s: %s",
                                             info.path, info.thread, info.number, count, position,
                                             what));
}

}  // namespace hindsight
