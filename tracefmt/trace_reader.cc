#include "tracefmt/trace_reader.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tracefmt/event_codec.h"
#include "tracefmt/full_keyframe_file.h"
#include "tracefmt/manifest_codec.h"
#include "tracefmt/modules/module_files.h"
#include "tracefmt/segment_file.h"
#include "tracefmt/storage/block.h"
#include "tracefmt/storage/read_budget.h"

namespace hindsight {
namespace {

// Bounds the memory events take; about 40 million of them.
constexpr uint64_t kMaxEventBytes = uint64_t{4} << 30;
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

class TraceReaderImpl final : public TraceReader {
 public:
  TraceReaderImpl(TraceDirectory files, Manifest manifest)
      : files_(std::move(files)),
        manifest_(std::move(manifest)),
        modules_(files_, &budget_, &warnings_) {
    if (!modules_.list_status().ok()) {
      NoteDamage(modules_.list_status(), /*may_be_cut_short=*/true);
    }
    ReadEventsFile();
    FindSegments();
    FindKeyframes();
    MarkThinnedSegments();
  }

  const std::string& directory() const override { return files_.path(); }
  const TraceDirectory& files() const override { return files_; }
  const Manifest& manifest() const override { return manifest_; }
  const ModuleList& modules() const override { return modules_.modules(); }
  const std::vector<ProcessEvent>& events() const override { return events_; }
  const std::vector<std::string>& warnings() const override { return warnings_; }

  const TrimmedEvent* trimmed() const override {
    return trimmed_.has_value() ? &*trimmed_ : nullptr;
  }
  // Whether the trace still begins where it did when this was made.
  bool IsUpToDate() const;

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
    if (absl::IsOutOfRange(status) && may_be_cut_short && !complete()) return;
    AddDamage(status);
  }

  void ReadEventsFile();
  absl::Status ReadEventBlocks();
  void FindSegments();
  void FindSegmentsOf(int32_t thread);
  int64_t FirstSegmentOf(int32_t thread) const;
  std::map<uint64_t, bool> KeyframeFiles() const;
  absl::StatusOr<std::shared_ptr<const FullKeyframe>> OpenKeyframe(uint64_t number,
                                                                   const std::string& suffix);
  void FindKeyframes();
  void CheckKeyframe(uint64_t number, absl::string_view what);
  void MarkThinnedSegments();

  const TraceDirectory files_;
  const Manifest manifest_;
  std::vector<std::string> warnings_;  // before modules_, which adds to it
  // For what is kept as long as the trace is open. Page tables are read later.
  ReadBudget budget_{kTraceBudgetBytes, kTraceBudgetMultiple};
  const ModuleFiles modules_;
  std::vector<ProcessEvent> events_;
  std::optional<TrimmedEvent> trimmed_;
  std::map<int32_t, uint64_t> first_segments_;  // of the trace, not of what is there
  std::map<int32_t, std::vector<SegmentInfo>> segments_;
  std::vector<absl::Status> damage_;
  PageGroups groups_;
  std::vector<std::shared_ptr<const FullKeyframe>> full_keyframes_;
};

void TraceReaderImpl::ReadEventsFile() {
  const absl::Status status = ReadEventBlocks();
  if (!events_.empty()) trimmed_ = TrimmedFrom(events_.front());
  if (status.ok()) return;
  WarnOfDamage("events dropped", status);
  NoteDamage(status, /*may_be_cut_short=*/true);
}

bool TraceReaderImpl::IsUpToDate() const {
  const absl::StatusOr<BlockFile> file = BlockFile::Open(files_, "events");
  if (!file.ok() || file->AtEnd(0)) return true;
  const absl::StatusOr<RawBlock> block = file->Read(0);
  ReadBudget budget(kManifestsBudgetBytes, kManifestsBudgetMultiple);
  std::vector<ProcessEvent> events;
  if (!block.ok() || !hindsight::ReadEvents(file->path(), *block, &budget, &events).ok()) {
    return true;
  }
  const auto now = events.empty() ? std::nullopt : TrimmedFrom(events.front());
  return now == trimmed_;
}

absl::Status TraceReaderImpl::ReadEventBlocks() {
  ASSIGN_OR_RETURN(const BlockFile file, BlockFile::Open(files_, "events"));
  const std::string& path = file.path();
  uint64_t offset = 0;
  uint64_t raw_bytes = 0;
  while (!file.AtEnd(offset)) {
    ASSIGN_OR_RETURN(const RawBlock block, file.Read(offset));
    budget_.AddStored(block.next_offset - offset);
    offset = block.next_offset;
    if (block.kind >= kFirstIgnorableBlockKind) continue;
    raw_bytes += block.word_count * sizeof(uint64_t);
    if (raw_bytes > kMaxEventBytes) {
      return BlockError(absl::StatusCode::kResourceExhausted, path, block.offset,
                        "too many events");
    }
    if (!block.Is(BlockKind::kEvents) && !block.Is(BlockKind::kThinnedEvents)) {
      return BlockError(absl::StatusCode::kUnimplemented, path, block.offset,
                        absl::StrCat("unknown kind of block ", block.kind));
    }
    RETURN_IF_ERROR(hindsight::ReadEvents(path, block, &budget_, &events_));
  }
  return absl::OkStatus();
}

void TraceReaderImpl::FindSegments() {
  if (trimmed_.has_value()) {
    first_segments_.insert(trimmed_->first_segments.begin(), trimmed_->first_segments.end());
  }
  for (const int64_t thread : NumberedEntries(files_, "threads", "")) {
    if (thread <= INT32_MAX) FindSegmentsOf(static_cast<int32_t>(thread));
  }
}

int64_t TraceReaderImpl::FirstSegmentOf(int32_t thread) const {
  const auto first = first_segments_.find(thread);
  if (first == first_segments_.end()) return 0;
  return static_cast<int64_t>(std::min<uint64_t>(first->second, INT64_MAX));
}

void TraceReaderImpl::FindSegmentsOf(int32_t thread) {
  const std::string directory = absl::StrCat("threads/", thread);
  const int64_t first = FirstSegmentOf(thread);
  std::vector<int64_t> numbers = NumberedEntries(files_, directory, ".seg");
  std::erase_if(numbers, [first](int64_t number) { return number < first; });
  std::vector<SegmentInfo>& segments = segments_[thread];
  for (size_t i = 0; i < numbers.size(); ++i) {
    const uint64_t number = static_cast<uint64_t>(numbers[i]);
    if (i > 0 && numbers[i] != numbers[i - 1] + 1) {
      const absl::Status gap = absl::DataLossError(absl::StrCat(
          files_.PathOf(directory), ": no segment between ", numbers[i - 1], " and ", number));
      AddDamage(gap);
      AddWarning(std::string(gap.message()));
    }
    absl::StatusOr<SegmentInfo> info = ReadSegmentInfo(files_, manifest_.uuid, thread, number);
    if (info.ok() && !segments.empty() && info->first_count < segments.back().first_count) {
      info = BlockError(absl::StatusCode::kDataLoss, info->path, 0,
                        "begins before the segment before it");
    }
    if (info.ok()) {
      segments.push_back(*std::move(info));
      continue;
    }
    WarnOfDamage("segment dropped", info.status());
    NoteDamage(info.status(), /*may_be_cut_short=*/i + 1 == numbers.size());
  }
  if (segments.empty()) {
    segments_.erase(thread);
    return;
  }
  if (manifest_.state != TraceState::kInterrupted) return;
  const SegmentInfo& last = segments.back();
  if (const auto torn = FindTornBlock(files_, last); torn.ok()) {
    AddWarning(absl::StrCat(last.path, ": offset ", *torn, ": the recorder died here; ",
                            last.file_bytes - *torn, " bytes dropped"));
  }
}

// Full keyframes, and whether there is a file of them with pages. Of one without, which lies before
// the whole one, there is its head; and if a live ring takes the pages meanwhile, there is, too.
std::map<uint64_t, bool> TraceReaderImpl::KeyframeFiles() const {
  std::map<uint64_t, bool> files;
  const bool thinned = trimmed_.has_value() && trimmed_->thinned();
  for (const int64_t number : NumberedEntries(files_, "full", thinned ? kHeadSuffix : "")) {
    const auto n = static_cast<uint64_t>(number);
    if (!thinned || (trimmed_->oldest_keyframe <= n && n < trimmed_->whole_keyframe)) {
      files[n] = !thinned;
    }
  }
  if (!thinned) return files;
  for (const int64_t number : NumberedEntries(files_, "full", "")) {
    files[static_cast<uint64_t>(number)] = true;
  }
  return files;
}

absl::StatusOr<std::shared_ptr<const FullKeyframe>> TraceReaderImpl::OpenKeyframe(
    uint64_t number, const std::string& suffix) {
  return OpenFullKeyframe(files_, manifest_.uuid, absl::StrCat(number, suffix), number, &groups_,
                          &modules_, &budget_);
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

void TraceReaderImpl::FindKeyframes() {
  const uint64_t oldest = trimmed_.has_value() ? trimmed_->oldest_keyframe : 0;
  for (const auto& [number, has_pages] : KeyframeFiles()) {
    absl::StatusOr<std::shared_ptr<const FullKeyframe>> keyframe = absl::NotFoundError("");
    if (has_pages) keyframe = OpenKeyframe(number, "");
    if (absl::IsNotFound(keyframe.status())) keyframe = OpenKeyframe(number, kHeadSuffix);
    // Earlier ones are there for the pages that later ones refer to.
    const bool listed = number >= oldest;
    if (keyframe.ok() && listed) {
      full_keyframes_.push_back(*std::move(keyframe));
    } else if (listed) {
      Warn("full keyframe dropped", keyframe.status());
      NoteDamage(keyframe.status(), /*may_be_cut_short=*/false);
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

absl::StatusOr<std::shared_ptr<const Segment>> TraceReaderImpl::LoadSegment(int32_t thread,
                                                                            uint64_t number) const {
  const std::vector<SegmentInfo>& all = segments(thread);
  const auto found = std::lower_bound(
      all.begin(), all.end(), number,
      [](const SegmentInfo& info, uint64_t wanted) { return info.number < wanted; });
  if (found == all.end() || found->number != number) {
    const absl::Status lost = ReadSegmentInfo(files_, manifest_.uuid, thread, number).status();
    if (!lost.ok() && !absl::IsNotFound(lost)) return lost;
    return absl::NotFoundError(
        absl::StrCat(directory(), ": no segment ", number, " of thread ", thread));
  }
  SegmentContext context;
  context.uuid = manifest_.uuid;
  context.module_count = modules_.end_index();
  context.may_be_cut_short = !complete() && found + 1 == all.end();
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
  // What a live ring drops while it is read is gone: then what has replaced it is read. What was
  // read of one that drops parts faster than that does not belong together.
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    ReadBudget budget(kManifestsBudgetBytes, kManifestsBudgetMultiple);
    ASSIGN_OR_RETURN(Manifest manifest, ReadTraceManifest(directory, &budget));
    const bool may_go_on = !manifest.ring.empty() && manifest.state == TraceState::kRecording;
    auto trace = std::make_unique<TraceReaderImpl>(directory, std::move(manifest));
    if (!may_go_on || trace->IsUpToDate()) return trace;
    if (std::chrono::steady_clock::now() >= deadline) {
      return absl::UnavailableError(absl::StrCat(
          directory.path(),
          ": is being recorded, and its ring drops parts faster than they can be read: try again, "
          "or when the recording has ended"));
    }
  }
}

absl::StatusOr<std::unique_ptr<TraceReader>> TraceReader::Open(const std::string& path) {
  ASSIGN_OR_RETURN(const TraceDirectory directory, TraceDirectory::Open(path));
  return Open(directory);
}

}  // namespace hindsight
