#include "keyframes/memory/memory_view.h"

#include <algorithm>
#include <cstring>

#include "base/status_macros.h"
#include "tracefmt/manifest.h"

namespace hindsight {
namespace {

// Watched pages remembered at segments' ends; beyond this they are found by replay again.
constexpr size_t kMaxRemembered = 4096;
// Pages kept of those found for one moment.
constexpr size_t kMaxFound = 1024;

}  // namespace

absl::StatusOr<size_t> MemoryView::Read(int32_t thread, uint64_t moment, uint64_t address,
                                        absl::Span<uint8_t> out,
                                        const std::atomic<bool>* interrupt) {
  if (found_at_ != std::pair(thread, moment)) found_.clear();
  found_at_ = {thread, moment};
  size_t done = 0;
  while (done < out.size()) {
    const uint64_t at = address + done;
    if (at < address) break;  // past the end of the address space
    const uint64_t in_page = at % kPageBytes;
    const size_t size = std::min<size_t>(out.size() - done, kPageBytes - in_page);
    ASSIGN_OR_RETURN(const SegmentReplay* present, views_->ReplayAt(thread, moment, interrupt));
    const uint64_t number = present->segment().info().number;
    ASSIGN_OR_RETURN(const bool is_own,
                     HasOwn(*present, thread, moment, at, out.subspan(done, size)));
    std::optional<uint64_t> old_since;
    if (is_own) {
      ASSIGN_OR_RETURN(old_since, MayBeOldSince(thread, number, moment, PageOf(at)));
    }
    if (old_since.has_value()) {
      Page own;
      if (!present->ReadHeld(PageOf(at), absl::MakeSpan(own))) return PageNotKnown(at);
      const Question question = {.thread = thread,
                                 .number = number,
                                 .ask_own = true,
                                 .moment = moment,
                                 .page = PageOf(at),
                                 .is_own = true,
                                 .since = *old_since,
                                 .interrupt = interrupt};
      RETURN_IF_ERROR(ReadMerged(question, own, in_page, out.subspan(done, size)));
    } else if (!is_own) {
      std::unique_ptr<Page>& found = found_[PageOf(at)];
      if (found == nullptr) {
        auto bytes = std::make_unique<Page>();
        const absl::Status status = Find({.thread = thread,
                                          .number = number,
                                          .ask_own = true,
                                          .moment = moment,
                                          .page = PageOf(at),
                                          .interrupt = interrupt},
                                         absl::MakeSpan(*bytes));
        if (!status.ok()) {
          found_.erase(PageOf(at));
          if (absl::IsNotFound(status)) break;
          return status;
        }
        found = std::move(bytes);
      }
      std::memcpy(out.data() + done, found->data() + in_page, size);
      if (found_.size() > kMaxFound) found_.clear();
    }
    done += size;
  }
  if (done == 0 && !out.empty()) return PageNotKnown(address);
  return done;
}

absl::Status MemoryView::ReadBefore(int32_t thread, uint64_t number, uint64_t moment, uint64_t page,
                                    const PageBits& wanted, absl::Span<uint8_t> out) {
  return Find({.thread = thread,
               .number = number,
               .moment = moment,
               .page = page,
               .searching = true,
               .wanted = &wanted},
              out);
}

// Whether all that the segment's records say of the page up to state `count` is that it is mapped,
// and of no file: then the thread may have used it, or not yet.
bool MemoryView::IsZerosByMap(const Segment& segment, uint64_t page, uint64_t count) {
  const std::vector<Record>& records = segment.records();
  const bool tells = std::any_of(records.begin(), records.end(), [](const Record& record) {
    return std::holds_alternative<MappedRange>(record.body);
  });
  bool is = false;
  for (const Record& record : records) {
    if (!tells || record.count > count) break;
    const auto* import = std::get_if<PageImport>(&record.body);
    if (import == nullptr || import->address != page) continue;
    is = import->first && import->module < 0 && import->line_mask == 0;
  }
  return is;
}

bool MemoryView::IsZeros(const SegmentReplay& replay, uint64_t page) {
  Page bytes;
  return replay.ReadHeld(page, absl::MakeSpan(bytes)) &&
         std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0; });
}

absl::StatusOr<bool> MemoryView::IsUntouched(int32_t thread, uint64_t moment, uint64_t address,
                                             const std::atomic<bool>* interrupt) {
  ASSIGN_OR_RETURN(const SegmentReplay* present, views_->ReplayAt(thread, moment, interrupt));
  const uint64_t page = PageOf(address);
  Question question = {.thread = thread,
                       .number = present->segment().info().number,
                       .ask_own = true,
                       .moment = moment,
                       .page = page,
                       .interrupt = interrupt};
  const absl::StatusOr<Answer> answer = Ask(&question);
  if (absl::IsNotFound(answer.status())) return false;
  RETURN_IF_ERROR(answer.status());
  if (!answer->outdated.empty()) return false;
  if (!answer->known.empty()) {
    return IsZerosByMap(present->segment(), page, process_->schedule().CountAt(thread, moment)) &&
           IsZeros(*present, page);
  }
  const MemoryOrigin& origin = answer->origin;
  switch (origin.kind) {
    case MemoryOrigin::Kind::kZeros:
      return true;
    case MemoryOrigin::Kind::kBirth:
      return views_->WasUntouchedAtBirth(page);
    case MemoryOrigin::Kind::kKeyframe: {
      Page saved;
      return origin.else_zeros &&
             absl::IsNotFound(origin.keyframe->ReadPage(page, absl::MakeSpan(saved)));
    }
    default:
      return false;
  }
}

absl::StatusOr<MemoryView::Answer> MemoryView::Ask(Question* question) {
  const uint64_t moment = question->moment, page = question->page;
  if (!process_->IsWhole(moment)) {
    ASSIGN_OR_RETURN(std::vector<Knowledge> own, AskOwn(*question));
    return Answer{.known = std::move(own), .origin = {}, .outdated = {}};
  }
  if (!process_->maps().IsEmptyAt(moment) &&
      process_->maps().FindWithStackGrowth(moment, page) == nullptr) {
    return PageNotKnown(page);
  }
  const MemoryOrigin origin = origins_.Of(moment, page);
  // What was known before a full keyframe, or a gap, no longer counts.
  question->floor =
      std::max({KeyframeMoment(moment), process_->LastGapBefore(moment), question->since});
  question->origin = origin.moment;
  ASSIGN_OR_RETURN(Findings findings, AskThreads(*question));
  if (findings.lost.has_value()) {
    const auto outdated = [&](const Knowledge& known) {
      return VerifiedMoment(known, moment) < *findings.lost;
    };
    findings.known.erase(std::remove_if(findings.known.begin(), findings.known.end(), outdated),
                         findings.known.end());
    if (findings.known.empty()) return PageNotKnown(page);
  }
  if (findings.known.empty()) {
    ASSIGN_OR_RETURN(const bool mapped, IsMapped(*question));
    if (!mapped) return PageNotKnown(page);
  }
  return Answer{.known = std::move(findings.known),
                .origin = origin,
                .outdated = std::move(findings.outdated)};
}

// Where threads are missing nobody else's knowledge is the newest: any of those may have written
// since.
absl::StatusOr<std::vector<MemoryView::Knowledge>> MemoryView::AskOwn(const Question& question) {
  Knowledge own{.thread = question.thread, .ended = std::nullopt, .latest = 0, .bytes = {}};
  bool before_turn = false, held = false;
  if (question.ask_own) {
    ASSIGN_OR_RETURN(held, ReadPresent(question, question.thread, &own, &before_turn));
  }
  if (held) {
    const uint64_t count = process_->schedule().CountAt(question.thread, question.moment);
    const SegmentKey key = {question.thread, process_->thread(question.thread).SegmentAt(count)};
    ASSIGN_OR_RETURN(const auto replaced, replacements_.Since(key, question.moment, question.page));
    held = !replaced.has_value();
  }
  if (!held) return PageNotKnown(question.page);
  return std::vector<Knowledge>{std::move(own)};
}

absl::Status MemoryView::Find(const Question& asked, absl::Span<uint8_t> out) {
  Question question = asked;
  ASSIGN_OR_RETURN(Answer answer, Ask(&question));
  std::vector<Knowledge>& known = answer.known;
  if (known.empty()) {
    RETURN_IF_ERROR(ReadOrigin(answer.origin, question, out));
    for (const Outdated& outdated : answer.outdated) {
      ASSIGN_OR_RETURN(const Knowledge newer, WithoutOld(outdated, question, out));
      std::copy(newer.bytes.begin(), newer.bytes.end(), out.begin());
    }
    return absl::OkStatus();
  }
  bool is_own = question.is_own;
  for (const Outdated& outdated : answer.outdated) {
    ASSIGN_OR_RETURN(Knowledge newer, WithoutOld(outdated, question, known.front().bytes));
    is_own |= newer.thread == question.thread && IsNewest(question.thread, question.moment);
    known.push_back(std::move(newer));
  }
  if (question.moves > 0 && question.searching) return TakeAgreed(known, question.page, out);
  return newest_.Merge(known,
                       {.moment = question.moment,
                        .page = question.page,
                        .at_once = RunsThreadsAtOnce(trace_->manifest()),
                        .running = is_own ? question.thread : 0,
                        .wanted = question.wanted,
                        .interrupt = question.interrupt},
                       out);
}

// A stack's region in the map reaches down as far as the stack may grow. It has grown to a page if
// a thread touched it or one below.
absl::StatusOr<bool> MemoryView::IsMapped(const Question& question) {
  const MapRegion* region = process_->maps().FindWithStackGrowth(question.moment, question.page);
  if (region == nullptr || question.page >= region->start) return true;
  for (int32_t thread : process_->threads().all()) {
    if (process_->threads().StartOf(thread) > question.moment) continue;
    const uint64_t count = process_->schedule().CountAt(thread, question.moment);
    ASSIGN_OR_RETURN(const TouchedPages* touched,
                     touched_.Of({thread, process_->thread(thread).SegmentAt(count)}));
    const auto below = [&](const TouchedPage& entry) {
      return entry.page < question.page && entry.count <= count &&
             process_->maps().FindWithStackGrowth(question.moment, entry.page) == region;
    };
    if (std::any_of(touched->all().begin(), touched->all().end(), below)) return true;
  }
  return false;
}

// Nobody has run since the thread made its last transition.
bool MemoryView::IsNewest(int32_t thread, uint64_t moment) const {
  const Schedule& schedule = process_->schedule();
  return schedule.ThreadAt(moment) == thread ||
         schedule.MomentTo(thread, schedule.CountAt(thread, moment)) == moment;
}

// The moment of the newest full keyframe at or before `moment`; 0 if there is none.
uint64_t MemoryView::KeyframeMoment(uint64_t moment) const {
  const Snapshot* const snapshot = process_->SnapshotAt(moment);
  return snapshot == nullptr ? 0 : snapshot->moment;
}

// The thread had ended before the full keyframe at `moment`: those that live begin a segment there.
bool MemoryView::HasEnded(int32_t thread, uint64_t moment) const {
  const uint64_t count = process_->schedule().CountAt(thread, moment);
  return count == process_->thread(thread).end_count() &&
         trace_->segments(thread).back().first_count < count;
}

// Whether the thread may know more than was known at the moment since which that matters.
bool MemoryView::HasRunSince(int32_t thread, const Question& question) const {
  const Schedule& schedule = process_->schedule();
  return question.since == 0 || thread == question.thread ||
         schedule.MomentTo(thread, schedule.CountAt(thread, question.moment)) > question.since;
}

// The state from which on what the thread has seen of the page counts.
uint64_t MemoryView::FirstCountOf(const Question& question, int32_t thread) const {
  if (question.origin <= question.floor) return 0;
  return process_->schedule().CountAt(thread, question.origin);
}

// The state in which the next segment begins; of the last one, no state is later.
uint64_t MemoryView::EndCountOf(const SegmentKey& key) const {
  const std::vector<SegmentInfo>& segments = trace_->segments(key.first);
  const auto next = std::find_if(segments.begin(), segments.end(), [&](const SegmentInfo& segment) {
    return segment.number == key.second + 1;
  });
  return next == segments.end() ? ~uint64_t{0} : next->first_count;
}

// No moment at which this was learned or written is later.
uint64_t MemoryView::NewestMoment(const Knowledge& knowledge, uint64_t moment) const {
  const int32_t thread = knowledge.thread;
  const Schedule& schedule = process_->schedule();
  if (knowledge.ended.has_value()) {
    const uint64_t end = EndCountOf({thread, *knowledge.ended});
    return end == ~uint64_t{0} ? moment : std::min(moment, schedule.MomentFrom(thread, end));
  }
  const uint64_t count = schedule.CountAt(thread, moment);
  return WaitsAt(thread, moment) ? std::min(moment, schedule.MomentTo(thread, count)) : moment;
}

// Up to which moment this is true as far as the thread knows.
uint64_t MemoryView::VerifiedMoment(const Knowledge& knowledge, uint64_t moment) const {
  const Schedule& schedule = process_->schedule();
  if (!knowledge.ended.has_value()) {
    // One that does not run, or never will again, knows what it knew when it left off.
    if (IsNewest(knowledge.thread, moment)) return moment;
    return schedule.MomentTo(knowledge.thread, schedule.CountAt(knowledge.thread, moment));
  }
  const uint64_t end = EndCountOf({knowledge.thread, *knowledge.ended});
  const uint64_t last = process_->thread(knowledge.thread).end_count();
  return std::min(moment, schedule.MomentTo(knowledge.thread, std::min(end, last)));
}

absl::StatusOr<bool> MemoryView::Touches(int32_t thread, uint64_t number, uint64_t address,
                                         uint64_t length) {
  if (length == 0) return false;
  ASSIGN_OR_RETURN(const TouchedPages* touched, touched_.Of({thread, number}));
  const std::vector<TouchedPage>& pages = touched->all();
  auto it = std::partition_point(
      pages.begin(), pages.end(),
      [first = PageOf(address)](const TouchedPage& entry) { return entry.page < first; });
  return it != pages.end() && it->page <= address + (length - 1);
}

absl::StatusOr<const MemoryView::Ending*> MemoryView::EndingOf(const StateKey& key,
                                                               const std::atomic<bool>* interrupt) {
  for (auto it = endings_.begin(); it != endings_.end(); ++it) {
    if (it->key != key) continue;
    endings_.splice(endings_.begin(), endings_, it);
    return &endings_.front();
  }
  if (side_ == nullptr) {
    ASSIGN_OR_RETURN(side_, SegmentReplay::Create(trace_));
  }
  ASSIGN_OR_RETURN(std::shared_ptr<const Segment> segment,
                   trace_->LoadSegment(key.segment.first, key.segment.second));
  RETURN_IF_ERROR(side_->Load(segment));
  const uint64_t count = std::min(key.count, segment->end_count());
  RETURN_IF_ERROR(key.before_turn ? side_->MoveToBeforeTurn(count, interrupt)
                                  : side_->AdvanceTo(count, interrupt));

  Ending ending;
  ending.key = key;
  ending.bytes.resize(side_->held_pages().size() * kPageBytes);
  size_t offset = 0;
  for (uint64_t page : side_->held_pages()) {
    if (!side_->ReadHeld(page, absl::MakeSpan(ending.bytes).subspan(offset, kPageBytes))) continue;
    ending.offset[page] = offset;
    offset += kPageBytes;
  }
  ending_bytes_ += ending.bytes.size();
  endings_.push_front(std::move(ending));
  while (ending_bytes_ > cache_bytes_ && endings_.size() > 1) {
    ending_bytes_ -= endings_.back().bytes.size();
    endings_.pop_back();
  }
  return &endings_.front();
}

void MemoryView::Remember(int32_t thread, uint64_t number, uint64_t page,
                          absl::Span<const uint8_t> bytes) {
  if (remembered_.size() >= kMaxRemembered) remembered_.clear();
  remembered_[{{thread, number}, page}].assign(bytes.begin(), bytes.end());
}

}  // namespace hindsight
