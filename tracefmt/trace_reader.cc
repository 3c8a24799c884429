#include "tracefmt/trace_reader.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tracefmt/event_file.h"
#include "tracefmt/full_keyframe_file.h"
#include "tracefmt/manifest_codec.h"
#include "tracefmt/modules/module_files.h"
#include "tracefmt/reference_cache.h"
#include "tracefmt/segment_file.h"
#include "tracefmt/storage/block.h"
#include "tracefmt/storage/read_budget.h"

namespace hindsight {
namespace {

// Of what is wrong with a trace, this much is reported.
constexpr size_t kMaxListed = 1000;
// Of a full keyframe that has lost its pages.
constexpr char kHeadSuffix[] = ".head";

// The number that `name` without `suffix` is, written the one way we write it; -1 if it is none.
int64_t NumberIn(const std::string& name, const std::string& suffix) {
  if (name.size() <= suffix.size() || !name.ends_with(suffix)) return -1;
  const char* end = name.data() + name.size() - suffix.size();
  int64_t number = -1;
  const auto [stop, error] = std::from_chars(name.data(), end, number);
  if (error != std::errc() || stop != end || number < 0) return -1;
  return absl::StrCat(number, suffix) == name ? number : -1;
}

// Numbers of the files (or directories) of `directory` named N + `suffix`, ascending.
std::vector<int64_t> NumberedEntries(const TraceDirectory& files, const std::string& directory,
                                     const std::string& suffix) {
  std::vector<int64_t> numbers;
  for (const std::string& name : files.Entries(directory)) {
    const int64_t number = NumberIn(name, suffix);
    if (number >= 0) numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::string ThreadDirectory(int32_t thread) { return absl::StrCat("threads/", thread); }

// Of what a ring may drop while it is read this many files are kept open: a third of what a process
// may have open, which may read more than one trace.
size_t MostKeptOpen(const TraceDirectory& directory) {
  return std::min<size_t>(directory.most_open() / 3, 1 << 14);
}

// A trace is first listed, and then arranged: what of that belongs to it. Between the two a live
// ring may have dropped some of it.
class TraceReaderImpl final : public TraceReader {
 public:
  TraceReaderImpl(const TraceDirectory& directory, Manifest manifest)
      : manifest_(std::move(manifest)),
        directory_(directory),
        files_(MayGo() ? directory.KeepingOpen({"full/", "threads/", "modules/"},
                                               MostKeptOpen(directory))
                       : directory),
        modules_(files_) {
    const absl::Status status = ReadEventFile(files_, &budget_, &events_);
    if (!events_.empty()) SetBeginning(TrimmedFrom(events_.front()));
    if (!status.ok()) {
      WarnOfDamage("events dropped", status);
      NoteDamage(status, /*may_be_cut_short=*/true);
    }
    // Segments that begin at a full keyframe are there before it.
    ListKeyframes();
    ListSegments();
    // Those that were dropped nothing refers to any more.
    modules_.Read(&budget_, &warnings_);
    if (MayGo()) modules_.LeaveOutMissing();
    NoteDamage(modules_.list_status(), /*may_be_cut_short=*/true);
  }

  bool IsLiveRing() const {
    return !manifest_.ring.empty() && manifest_.state == TraceState::kRecording;
  }
  // All that was listed was listed before the whole trace was dropped.
  absl::Status CheckIsThere() const {
    return MayGo() ? directory_.OpenFile("manifest").status() : absl::OkStatus();
  }
  // The trace begins where a live ring does by now. False: that is after all that was listed.
  bool CatchUp();
  // Call once, before anything below.
  void Arrange();

  const std::string& directory() const override { return files_.path(); }
  const TraceDirectory& files() const override { return directory_; }
  const Manifest& manifest() const override { return manifest_; }
  const ModuleList& modules() const override { return modules_.modules(); }
  const std::vector<ProcessEvent>& events() const override { return events_; }
  const std::vector<std::string>& warnings() const override { return warnings_; }

  const TrimmedEvent* trimmed() const override {
    return trimmed_.has_value() ? &*trimmed_ : nullptr;
  }

  std::vector<int32_t> threads() const override {
    std::vector<int32_t> threads;
    for (const auto& [thread, segments] : segments_) threads.push_back(thread);
    return threads;
  }
  const std::vector<SegmentInfo>& segments(int32_t thread) const override {
    static const std::vector<SegmentInfo> kNone;
    const auto found = segments_.find(thread);
    return found == segments_.end() ? kNone : found->second;
  }
  const std::vector<absl::Status>& damage() const override { return damage_; }
  absl::StatusOr<std::shared_ptr<const Segment>> LoadSegment(int32_t thread,
                                                             uint64_t number) const override;
  const std::vector<std::shared_ptr<const FullKeyframe>>& full_keyframes() const override {
    return full_keyframes_;
  }
  absl::StatusOr<absl::Span<const uint8_t>> ModuleBytes(int32_t module) const override {
    return modules_.Bytes(module);
  }
  Sizes sizes() const override {
    Sizes sizes;
    sizes.segments = files_.BytesUnder("threads");
    sizes.modules = files_.BytesUnder("modules");
    sizes.full_keyframes = files_.BytesUnder("full");
    sizes.events = files_.BytesUnder("events");
    sizes.total = sizes.segments + sizes.modules + sizes.full_keyframes + sizes.events +
                  files_.BytesUnder("manifest") + files_.BytesUnder("index");
    return sizes;
  }

 private:
  // Files, by their numbers, as they were found.
  using ListedSegments = std::map<uint64_t, absl::StatusOr<SegmentInfo>>;
  struct ListedKeyframe {
    bool is_head = false;  // only that was there
    absl::StatusOr<std::shared_ptr<const FullKeyframe>> keyframe;
  };

  // Of a process that has ended, a ring may drop the whole trace.
  bool MayGo() const {
    return IsLiveRing() || (!manifest_.ring.empty() && !directory_.name().empty());
  }
  bool complete() const { return manifest_.state == TraceState::kComplete; }
  void AddWarning(std::string text) {
    if (warnings_.size() > kMaxListed) return;
    warnings_.push_back(warnings_.size() < kMaxListed ? std::move(text) : "and more of the kind");
  }
  void Warn(absl::string_view what, const absl::Status& status) {
    AddWarning(absl::StrCat(what, ": ", status.message()));
  }
  void AddDamage(const absl::Status& status) {
    if (damage_.size() < kMaxListed) damage_.push_back(status);
  }
  // A file that just ends is what a dead recorder leaves, worth a word, or a live one, worth none.
  void WarnOfDamage(absl::string_view what, const absl::Status& status) {
    if (absl::IsOutOfRange(status) && manifest_.state == TraceState::kRecording) return;
    Warn(what, status);
  }

  // The last file written of its kind may be cut short by the recorder's death.
  void NoteDamage(const absl::Status& status, bool may_be_cut_short) {
    if (status.ok() || (absl::IsOutOfRange(status) && may_be_cut_short && !complete())) return;
    AddDamage(status);
  }

  void SetBeginning(std::optional<TrimmedEvent> trimmed);
  uint64_t FirstSegmentOf(int32_t thread) const;
  absl::StatusOr<const SegmentInfo*> FindSegment(int32_t thread, uint64_t number) const;
  std::vector<int64_t> SegmentNumbers(int32_t thread) const;
  void ListSegments();
  void ListKeyframes();
  absl::StatusOr<std::shared_ptr<const FullKeyframe>> OpenKeyframe(uint64_t number);
  bool HasListed(uint64_t keyframe) const;
  void LeaveOutThreadsThatHaveGone();
  void ArrangeSegments(int32_t thread, ListedSegments* listed);
  void WarnOfTornBlock(const SegmentInfo& last);
  void ArrangeKeyframes();
  void CheckKeyframe(uint64_t number, absl::string_view what);
  void MarkThinnedSegments();

  const Manifest manifest_;
  const TraceDirectory directory_, files_;  // the second one keeps open what may go
  std::vector<std::string> warnings_;
  // For what is kept as long as the trace is open. Page tables are read later.
  ReadBudget budget_{kTraceBudgetBytes, kTraceBudgetMultiple};
  ModuleFiles modules_;
  std::vector<ProcessEvent> events_;
  std::optional<TrimmedEvent> trimmed_;
  std::map<int32_t, uint64_t> first_segments_;  // of the trace, not of what is there
  std::map<int32_t, ListedSegments> listed_segments_;
  std::map<uint64_t, ListedKeyframe> listed_keyframes_;
  std::map<int32_t, std::vector<SegmentInfo>> segments_;
  std::vector<absl::Status> damage_;
  PageGroups groups_;
  std::vector<std::shared_ptr<const FullKeyframe>> full_keyframes_;
  mutable ReferenceCache references_;
};

void TraceReaderImpl::SetBeginning(std::optional<TrimmedEvent> trimmed) {
  trimmed_ = std::move(trimmed);
  first_segments_.clear();
  if (!trimmed_.has_value()) return;
  first_segments_.insert(trimmed_->first_segments.begin(), trimmed_->first_segments.end());
}

uint64_t TraceReaderImpl::FirstSegmentOf(int32_t thread) const {
  const auto first = first_segments_.find(thread);
  return first == first_segments_.end() ? 0 : first->second;
}

// Of the trace's segments. What is made or removed meanwhile a listing may have or not have: a
// second one has all that the first one should have had.
std::vector<int64_t> TraceReaderImpl::SegmentNumbers(int32_t thread) const {
  const auto list = [&] {
    std::vector<int64_t> numbers = NumberedEntries(files_, ThreadDirectory(thread), ".seg");
    std::erase_if(numbers, [first = FirstSegmentOf(thread)](int64_t number) {
      return static_cast<uint64_t>(number) < first;
    });
    return numbers;
  };
  const auto has_gap = [](const std::vector<int64_t>& numbers) {
    return !numbers.empty() &&
           static_cast<uint64_t>(numbers.back() - numbers.front()) != numbers.size() - 1;
  };
  std::vector<int64_t> numbers = list();
  if (manifest_.state == TraceState::kRecording && has_gap(numbers)) numbers = list();
  return numbers;
}

void TraceReaderImpl::ListSegments() {
  for (const int64_t number : NumberedEntries(files_, "threads", "")) {
    if (number > INT32_MAX) continue;
    const auto thread = static_cast<int32_t>(number);
    ListedSegments& listed = listed_segments_[thread];
    for (const int64_t segment : SegmentNumbers(thread)) {
      const auto n = static_cast<uint64_t>(segment);
      listed.emplace(n, ReadSegmentInfo(files_, manifest_.uuid, thread, n));
    }
  }
}

// Heads are listed last: a ring makes them before the pages go, so all that it has are found, one
// way or the other.
void TraceReaderImpl::ListKeyframes() {
  std::map<uint64_t, bool> is_head;
  for (const int64_t number : NumberedEntries(files_, "full", "")) {
    is_head.emplace(static_cast<uint64_t>(number), false);
  }
  if (trimmed_.has_value() || IsLiveRing()) {
    for (const int64_t number : NumberedEntries(files_, "full", kHeadSuffix)) {
      is_head.emplace(static_cast<uint64_t>(number), true);
    }
  }
  for (const auto& [number, head] : is_head) {
    listed_keyframes_.emplace(number, ListedKeyframe{head, OpenKeyframe(number)});
  }
}

absl::StatusOr<std::shared_ptr<const FullKeyframe>> TraceReaderImpl::OpenKeyframe(uint64_t number) {
  absl::StatusOr<std::shared_ptr<const FullKeyframe>> keyframe = absl::NotFoundError("");
  for (const char* suffix : {"", kHeadSuffix}) {
    if (!absl::IsNotFound(keyframe.status())) break;
    keyframe = OpenFullKeyframe(files_, manifest_.uuid, absl::StrCat(number, suffix), number,
                                &groups_, &modules_, &budget_);
  }
  return keyframe;
}

bool TraceReaderImpl::HasListed(uint64_t keyframe) const {
  const auto found = listed_keyframes_.find(keyframe);
  return found != listed_keyframes_.end() && found->second.keyframe.ok();
}

// Events from the oldest full keyframe on stay as they were. Whatever was gone when it was listed
// had been dropped by then, so it is before where the trace begins now.
bool TraceReaderImpl::CatchUp() {
  absl::StatusOr<std::vector<ProcessEvent>> beginning = ReadFirstEvents(directory_);
  if (!beginning.ok() || beginning->empty()) return true;
  std::optional<TrimmedEvent> trimmed = TrimmedFrom(beginning->front());
  if (trimmed == trimmed_) return true;
  if (!trimmed.has_value() || !HasListed(trimmed->oldest_keyframe) ||
      !HasListed(trimmed->whole_keyframe)) {
    return false;
  }
  const auto mark = std::find_if(events_.begin(), events_.end(), [&](const ProcessEvent& event) {
    return event.kind == EventKind::kFullKeyframe &&
           static_cast<uint64_t>(event.number) == trimmed->oldest_keyframe;
  });
  if (mark == events_.end()) return false;
  beginning->insert(beginning->end(), std::make_move_iterator(mark),
                    std::make_move_iterator(events_.end()));
  events_ = *std::move(beginning);
  SetBeginning(std::move(trimmed));
  LeaveOutThreadsThatHaveGone();
  return true;
}

// Of a thread of which nothing is left nobody speaks any more, and another one may have its number.
void TraceReaderImpl::LeaveOutThreadsThatHaveGone() {
  std::erase_if(listed_segments_, [&](const auto& thread) {
    const auto first = thread.second.lower_bound(FirstSegmentOf(thread.first));
    if (first == thread.second.end() || !first->second.ok()) return false;
    const SegmentInfo& listed = *first->second;
    const auto info = ReadSegmentInfo(directory_, manifest_.uuid, thread.first, listed.number);
    if (!info.ok()) return !first_segments_.contains(thread.first);
    return info->first_count != listed.first_count || info->first_sequence != listed.first_sequence;
  });
}

void TraceReaderImpl::Arrange() {
  for (auto& [thread, listed] : listed_segments_) ArrangeSegments(thread, &listed);
  ArrangeKeyframes();
  MarkThinnedSegments();
  listed_segments_.clear();
  listed_keyframes_.clear();
}

void TraceReaderImpl::ArrangeSegments(int32_t thread, ListedSegments* listed) {
  listed->erase(listed->begin(), listed->lower_bound(FirstSegmentOf(thread)));
  std::vector<SegmentInfo> segments;
  std::optional<uint64_t> before;
  for (auto& [number, info] : *listed) {
    if (before.has_value() && number != *before + 1) {
      const absl::Status gap =
          absl::DataLossError(absl::StrCat(files_.PathOf(ThreadDirectory(thread)),
                                           ": no segment between ", *before, " and ", number));
      AddDamage(gap);
      AddWarning(std::string(gap.message()));
    }
    before = number;
    if (info.ok() && !segments.empty() && info->first_count < segments.back().first_count) {
      info = BlockError(absl::StatusCode::kDataLoss, info->path, 0,
                        "begins before the segment before it");
    }
    if (info.ok()) {
      segments.push_back(*std::move(info));
      continue;
    }
    WarnOfDamage("segment dropped", info.status());
    NoteDamage(info.status(), /*may_be_cut_short=*/number == listed->rbegin()->first);
  }
  if (segments.empty()) return;
  if (manifest_.state == TraceState::kInterrupted) WarnOfTornBlock(segments.back());
  segments_.emplace(thread, std::move(segments));
}

void TraceReaderImpl::WarnOfTornBlock(const SegmentInfo& last) {
  const auto torn = FindTornBlock(files_, last);
  if (!torn.ok()) return;
  AddWarning(absl::StrCat(last.path, ": offset ", *torn, ": the recorder died here; ",
                          last.file_bytes - *torn, " bytes dropped"));
}

// Segments of threads that go on at the whole keyframe, or have ended before, lie before it.
void TraceReaderImpl::MarkThinnedSegments() {
  if (!trimmed_.has_value() || !trimmed_->thinned()) return;
  const auto whole = std::find_if(
      full_keyframes_.begin(), full_keyframes_.end(),
      [&](const auto& keyframe) { return keyframe->number() == trimmed_->whole_keyframe; });
  if (whole == full_keyframes_.end()) return;
  std::map<int32_t, uint64_t> there;
  for (const FullKeyframe::ThreadState& state : (*whole)->threads()) {
    there[state.thread] = state.segment;
  }
  for (auto& [thread, segments] : segments_) {
    const auto state = there.find(thread);
    for (SegmentInfo& segment : segments) {
      segment.thinned = state != there.end() ? segment.number < state->second
                                             : segment.first_sequence < (*whole)->sequence();
    }
  }
}

void TraceReaderImpl::ArrangeKeyframes() {
  const uint64_t oldest = trimmed_.has_value() ? trimmed_->oldest_keyframe : 0;
  const uint64_t whole = trimmed_.has_value() ? trimmed_->whole_keyframe : 0;
  for (auto& [number, listed] : listed_keyframes_) {
    // Earlier ones are there for the pages that later ones refer to.
    if (number < oldest || (listed.is_head && number >= whole)) continue;
    if (listed.keyframe.ok()) {
      full_keyframes_.push_back(*std::move(listed.keyframe));
    } else {
      Warn("full keyframe dropped", listed.keyframe.status());
      NoteDamage(listed.keyframe.status(), /*may_be_cut_short=*/false);
    }
  }
  if (!trimmed_.has_value()) return;
  CheckKeyframe(trimmed_->oldest_keyframe, "the trace begins with full keyframe ");
  if (trimmed_->thinned()) {
    CheckKeyframe(trimmed_->whole_keyframe, "the trace has all threads from full keyframe ");
  }
}

void TraceReaderImpl::CheckKeyframe(uint64_t number, absl::string_view what) {
  const bool there =
      std::any_of(full_keyframes_.begin(), full_keyframes_.end(),
                  [&](const auto& keyframe) { return keyframe->number() == number; });
  if (there) return;
  const absl::Status missing = absl::DataLossError(absl::StrCat(
      files_.PathOf(absl::StrCat("full/", number)), ": ", what, number, ", which is not there"));
  AddWarning(std::string(missing.message()));
  AddDamage(missing);
}

absl::StatusOr<const SegmentInfo*> TraceReaderImpl::FindSegment(int32_t thread,
                                                                uint64_t number) const {
  const std::vector<SegmentInfo>& all = segments(thread);
  const auto found = std::lower_bound(
      all.begin(), all.end(), number,
      [](const SegmentInfo& info, uint64_t wanted) { return info.number < wanted; });
  if (found != all.end() && found->number == number) return &*found;
  const absl::Status lost = ReadSegmentInfo(files_, manifest_.uuid, thread, number).status();
  if (!lost.ok() && !absl::IsNotFound(lost)) return lost;
  return absl::NotFoundError(
      absl::StrCat(directory(), ": no segment ", number, " of thread ", thread));
}

absl::StatusOr<std::shared_ptr<const Segment>> TraceReaderImpl::LoadSegment(int32_t thread,
                                                                            uint64_t number) const {
  ASSIGN_OR_RETURN(const SegmentInfo* const found, FindSegment(thread, number));
  SegmentContext context;
  context.uuid = manifest_.uuid;
  context.module_count = modules_.end_index();
  context.may_be_cut_short = !complete() && found == &segments(thread).back();
  context.load_reference = [this, base = context, thread](uint64_t reference) {
    return references_.Get(thread, reference, [&]() -> ReferenceCache::Loaded {
      ASSIGN_OR_RETURN(const SegmentInfo* const info, FindSegment(thread, reference));
      return ReadReferenceSegment(files_, *info, base);
    });
  };
  absl::StatusOr<std::shared_ptr<const Segment>> segment = ReadSegment(files_, *found, context);
  // It was there when the trace was opened.
  if (absl::IsNotFound(segment.status()) && !manifest_.ring.empty() && !complete()) {
    return absl::NotFoundError(absl::StrCat(
        found->path, ": the ring has gone on and dropped this; open the recording again"));
  }
  return segment;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TraceReader>> TraceReader::Open(const TraceDirectory& directory,
                                                               std::chrono::seconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    ReadBudget budget(kManifestsBudgetBytes, kManifestsBudgetMultiple);
    ASSIGN_OR_RETURN(Manifest manifest, ReadTraceManifest(directory, &budget));
    auto trace = std::make_unique<TraceReaderImpl>(directory, std::move(manifest));
    if (!trace->IsLiveRing() || trace->CatchUp()) {
      RETURN_IF_ERROR(trace->CheckIsThere());
      trace->Arrange();
      return trace;
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      return absl::UnavailableError(absl::StrCat(
          directory.path(),
          ": is being recorded, and its ring drops all that it has faster than that can be listed: "
          "try again, or when the recording has ended"));
    }
  }
}

absl::StatusOr<std::unique_ptr<TraceReader>> TraceReader::Open(const std::string& path) {
  ASSIGN_OR_RETURN(const TraceDirectory directory, TraceDirectory::Open(path));
  return Open(directory);
}

}  // namespace hindsight
