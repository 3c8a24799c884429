#include "tracefmt/trace_writer.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "tracefmt/event_output.h"
#include "tracefmt/keyframe_writer.h"
#include "tracefmt/manifest_codec.h"
#include "tracefmt/modules/module_list_output.h"
#include "tracefmt/modules/module_store.h"
#include "tracefmt/recording_output.h"
#include "tracefmt/ring/event_summary.h"
#include "tracefmt/ring/ring.h"
#include "tracefmt/ring/trace_history.h"
#include "tracefmt/segment_output.h"
#include "tracefmt/storage/output_directory.h"
#include "tracefmt/storage/trace_directory.h"
#include "tracefmt/storage/trace_lock.h"

namespace hindsight {
namespace {

// Beyond a manifest of the size of the first one; a file system rounds up.
constexpr size_t kReservedBytes = 32 << 10;

absl::StatusOr<std::string> NewUuid() {
  std::string uuid(kUuidBytes, '\0');
  if (getrandom(uuid.data(), uuid.size(), 0) != static_cast<ssize_t>(uuid.size())) {
    return absl::ErrnoToStatus(errno, "getrandom");
  }
  return uuid;
}

// Modules, keyframes, events and segments have writers of their own (see the fields): here is what
// they share, and the beginning and end of the trace.
class TraceWriterImpl final : public TraceWriter {
 public:
  // `manifest` has its uuid. `name`: below processes/, empty for the recording's first process.
  TraceWriterImpl(std::shared_ptr<RecordingOutput> output, const OutputDirectory& directory,
                  std::string name, const Manifest& manifest, UniqueFd lock)
      : output_(std::move(output)),
        directory_(directory),
        name_(std::move(name)),
        manifest_(manifest),
        lock_(std::move(lock)),
        module_list_(std::make_shared<ModuleListOutput>(directory_.In("modules"),
                                                        output_->modules(), output_->encoder(),
                                                        output_->bytes_written())),
        keyframes_(directory_.In("full"), manifest_.uuid, output_->queue(), output_->encoder(),
                   &pages_, output_->ring(), output_->bytes_written()) {
    if (output_->ring()->on()) MakeHistory();
  }

  ~TraceWriterImpl() override {
    // Without Finish the trace is left as it would be by a recorder that died right after a Flush.
    if (!finished_) {
      const absl::Status status = Flush();
      if (!status.ok()) PutLastWords(manifest_, status);
    }
    if (history_ != nullptr && !kept_) {
      output_->queue()->RunAnyway([this] { return LeaveRing(); }).IgnoreError();
    }
    output_->queue()->Drain().IgnoreError();  // its jobs use this
  }

  absl::Status Start() {
    for (const char* name : {"modules", "threads", "full"}) {
      RETURN_IF_ERROR(directory_.MakeDirectory(name));
    }
    return output_->queue()->Run([this]() -> absl::Status {
      RETURN_IF_ERROR(module_list_->Create());
      RETURN_IF_ERROR(events_.Create(directory_));
      if (history_ != nullptr) output_->ring()->Add(history_.get());
      RETURN_IF_ERROR(PutManifest(manifest_, TraceState::kRecording));
      // The final manifest is hardly larger than this one.
      if (name_.empty()) output_->Reserve(output_->bytes_written()->load() + kReservedBytes);
      return absl::OkStatus();
    });
  }

  absl::StatusOr<std::unique_ptr<TraceWriter>> CreateChild(const Manifest& manifest) override;

  absl::StatusOr<int32_t> AddModule(const std::string& path, int fd, uint64_t max_bytes) override {
    return modules_.Add(path, fd, max_bytes);
  }
  std::shared_ptr<const ModuleContents> ContentsOf(int32_t module) const override {
    return modules_.ContentsOf(module);
  }
  absl::Status ReleaseModules(absl::Span<const int32_t> modules) override {
    if (history_ == nullptr || modules.empty()) return absl::OkStatus();
    events_.ForgetModules(modules);
    keyframes_.ForgetModules(modules);
    return modules_.Release(modules, keyframes_.finished() + 1);
  }

  SegmentWriter* Segments(int32_t thread) override;
  absl::Status AppendEvent(ProcessEvent event) override {
    const bool mark = history_ != nullptr && event.kind == EventKind::kFullKeyframe;
    return mark ? MarkKeyframe(event) : events_.Append(std::move(event));
  }
  bool has_ring() const override { return history_ != nullptr; }
  bool WantsFullKeyframe() const override { return pace_.Wants(); }

  absl::Status BeginFullKeyframe(uint64_t number, uint64_t sequence,
                                 const std::vector<ThreadState>& threads,
                                 const std::vector<MapRegion>& maps,
                                 absl::Span<const uint64_t> auxv) override {
    if (history_ != nullptr) BeginMark(number, threads);
    return keyframes_.Begin(number, sequence, threads, maps, auxv);
  }
  absl::Status AddPage(uint64_t address, absl::Span<const uint8_t> bytes) override {
    return keyframes_.AddPage(address, bytes);
  }
  absl::Status AddModulePage(uint64_t address, int32_t module, uint64_t offset) override {
    if (!modules_.IsStored(module)) {
      return absl::InvalidArgumentError(absl::StrCat("module ", module, " is not stored"));
    }
    return keyframes_.AddReference(
        address, {PageSourceKind::kModule, static_cast<uint32_t>(module), offset});
  }
  void KeepPageTable() override { keyframes_.KeepPageTable(); }
  bool HadPage(uint64_t address) override { return keyframes_.HadPage(address); }
  absl::Status AddUnchangedPage(uint64_t address) override {
    return keyframes_.AddUnchangedPage(address);
  }
  absl::Status DeclareComplete(const std::vector<std::pair<uint64_t, uint64_t>>& unseen) override {
    return keyframes_.DeclareComplete(unseen);
  }
  absl::Status AddKernelState(const KernelState& state) override {
    return keyframes_.AddKernelState(state);
  }
  absl::Status FinishFullKeyframe() override {
    RETURN_IF_ERROR(keyframes_.Finish());
    return history_ == nullptr ? absl::OkStatus() : AwaitFullKeyframe();
  }
  absl::Status AwaitFullKeyframe() override { return output_->queue()->Drain(); }

  absl::Status Flush() override;
  absl::Status Finish(const Manifest& manifest) override;

  uint64_t bytes_written() const override {
    return output_->bytes_written()->load(std::memory_order_relaxed);
  }

 private:
  absl::Status PutManifest(Manifest manifest, TraceState state) {
    manifest.uuid = manifest_.uuid;
    manifest.parent_directory = manifest_.parent_directory;
    manifest.ring = manifest_.ring;
    manifest.state = state;
    // Those of other processes are many, and whoever begins or ends would wait.
    LateSync* const late = name_.empty() ? nullptr : output_->late_sync();
    return WriteManifest(directory_, manifest, output_->encoder(), late, output_->bytes_written());
  }
  TraceTotals Totals() const;
  // Of a ring.
  void MakeHistory();
  void BeginMark(uint64_t number, const std::vector<ThreadState>& threads);
  absl::Status MarkKeyframe(const ProcessEvent& event);
  std::vector<ProcessEvent> StartsAtInstructions() const;
  void ForgetThreads();
  absl::Status LeaveRing() {
    output_->ring()->Remove(history_.get());
    return absl::OkStatus();
  }
  // Leaves the trace as interrupted, with the reason.
  void PutLastWords(Manifest manifest, const absl::Status& status);

  const std::shared_ptr<RecordingOutput> output_;
  const OutputDirectory directory_;
  const std::string name_;
  const Manifest manifest_;  // at the start
  UniqueFd lock_;
  bool finished_ = false;
  PageIndex pages_;
  const std::shared_ptr<ModuleListOutput> module_list_;
  ModuleStore modules_{output_->modules(), module_list_, output_->queue(), &pages_};
  mutable std::mutex segments_mutex_;  // guards the map, not what is in it
  std::map<int32_t, std::unique_ptr<SegmentOutput>> segments_;
  EventOutput events_{output_.get()};
  KeyframeWriter keyframes_;
  RingPace pace_{output_->ring()};
  std::shared_ptr<TraceHistory> history_;  // null if all is kept
  bool kept_ = false;                      // by the recording
  KeyframeMark mark_;                      // of the full keyframe that was begun last
  std::vector<EventSummary::Beginning> beginnings_;
};

absl::StatusOr<std::unique_ptr<TraceWriter>> TraceWriterImpl::CreateChild(
    const Manifest& manifest) {
  const absl::Status made = output_->directory().MakeDirectory(kProcessesDirectory);
  if (!made.ok() && !absl::IsAlreadyExists(made)) return made;
  const OutputDirectory processes = output_->directory().In(kProcessesDirectory);
  Manifest own = manifest;
  if (own.uuid.empty()) {
    ASSIGN_OR_RETURN(own.uuid, NewUuid());
  }
  own.parent_directory.clear();
  own.ring = output_->ring()->limits().text;
  if (own.parent_pid != 0) own.parent_directory = name_.empty() ? "../.." : "../" + name_;
  // The kernel gives a process the pid of another that ended.
  std::string name = absl::StrCat(manifest.pid);
  absl::Status free = processes.MakeDirectory(name);
  for (int n = 2; absl::IsAlreadyExists(free); ++n) {
    name = absl::StrCat(manifest.pid, "-", n);
    free = processes.MakeDirectory(name);
  }
  RETURN_IF_ERROR(free);
  const OutputDirectory directory = processes.In(name);
  ASSIGN_OR_RETURN(UniqueFd lock, TakeTraceLock(directory, "lock"));
  auto child = std::make_unique<TraceWriterImpl>(output_, directory, name, own, std::move(lock));
  RETURN_IF_ERROR(child->Start());
  return child;
}

void TraceWriterImpl::MakeHistory() {
  history_ = std::make_shared<TraceHistory>(
      directory_, output_->directory().In(kProcessesDirectory), name_, output_->ring(),
      output_->bytes_written(), module_list_,
      [this](uint64_t offset, const std::vector<ProcessEvent>& beginning) {
        return events_.DropBefore(offset, beginning);
      },
      [this] { return events_.bytes(); },
      [this](uint64_t number) {
        return WriteKeyframeHead(directory_.In("full"), number, output_->encoder(),
                                 output_->bytes_written());
      });
}

void TraceWriterImpl::BeginMark(uint64_t number, const std::vector<ThreadState>& threads) {
  mark_ = {.number = number, .self_contained = pace_.BeginKeyframe()};
  if (mark_.self_contained) keyframes_.BeginGeneration();
  beginnings_.clear();
  std::lock_guard<std::mutex> lock(segments_mutex_);
  for (const ThreadState& state : threads) {
    mark_.segments.emplace_back(state.thread, state.segment);
    const auto segments = segments_.find(state.thread);
    beginnings_.push_back({.thread = state.thread, .count = state.count});
    if (segments != segments_.end()) {
      beginnings_.back().instruction = segments->second->last_instruction();
    }
  }
}

absl::Status TraceWriterImpl::MarkKeyframe(const ProcessEvent& event) {
  ForgetThreads();
  return events_.AppendMark(event, [this](const EventSummary& summary, uint64_t events) {
    mark_.carried = summary.Carried(beginnings_);
    mark_.program = summary.program();
    mark_.others_write = summary.others_write();
    mark_.may_begin = !summary.makes_thread();
    mark_.execs = summary.execs();
    mark_.bytes = keyframes_.last_bytes();
    mark_.instructions = StartsAtInstructions();
    mark_.events_before = events;
    return [this, mark = mark_](uint64_t offset) mutable {
      mark.events_offset = offset;
      history_->AddKeyframe(std::move(mark));
    };
  });
}

std::vector<ProcessEvent> TraceWriterImpl::StartsAtInstructions() const {
  std::vector<ProcessEvent> starts;
  for (const ProcessEvent& start : mark_.carried) {
    const auto beginning = std::find_if(
        beginnings_.begin(), beginnings_.end(),
        [&](const EventSummary::Beginning& one) { return one.thread == start.thread; });
    if (start.kind != EventKind::kThreadStart || beginning == beginnings_.end()) continue;
    if (start.sequence == 0 || start.sequence != beginning->instruction.sequence) continue;
    starts.push_back(start);
    starts.back().text.clear();  // the thread's name is known from elsewhere
  }
  return starts;
}

// Those of which nothing is on disk any more and that have ended.
void TraceWriterImpl::ForgetThreads() {
  for (const int32_t thread : history_->TakeGone()) {
    std::lock_guard<std::mutex> lock(segments_mutex_);
    const auto segments = segments_.find(thread);
    if (segments != segments_.end() && segments->second->closed()) segments_.erase(segments);
  }
}

SegmentWriter* TraceWriterImpl::Segments(int32_t thread) {
  std::lock_guard<std::mutex> lock(segments_mutex_);
  std::unique_ptr<SegmentOutput>& segments = segments_[thread];
  if (segments == nullptr) {
    segments = std::make_unique<SegmentOutput>(
        thread, directory_, manifest_.uuid, output_.get(), [this] { return events_.Post(); },
        history_.get());
  }
  segments->Reopen();
  return segments.get();
}

absl::Status TraceWriterImpl::Flush() {
  std::vector<SegmentOutput*> all;
  {
    std::lock_guard<std::mutex> lock(segments_mutex_);
    for (const auto& [thread, segments] : segments_) all.push_back(segments.get());
  }
  for (SegmentOutput* segments : all) RETURN_IF_ERROR(segments->Post());
  RETURN_IF_ERROR(events_.Post());
  if (history_ != nullptr) {
    // Time alone may end a part.
    RETURN_IF_ERROR(output_->queue()->Post([] { return absl::OkStatus(); }));
  }
  return output_->queue()->Drain();
}

TraceTotals TraceWriterImpl::Totals() const {
  TraceTotals totals;
  std::lock_guard<std::mutex> lock(segments_mutex_);
  for (const auto& [thread, segments] : segments_) {
    ThreadTotals of_thread = segments->totals();
    if (history_ != nullptr) {
      of_thread.segments = history_->SegmentsOf(thread);
      of_thread.records = history_->RecordsOf(thread);
    }
    if (of_thread.segments != 0) totals.threads.push_back(of_thread);  // 0: the first was refused
  }
  totals.events = events_.count() - (history_ == nullptr ? 0 : history_->dropped_events());
  totals.full_keyframes = history_ == nullptr ? keyframes_.finished() : history_->keyframes();
  totals.modules = module_list_->size();
  return totals;
}

absl::Status TraceWriterImpl::Finish(const Manifest& manifest) {
  absl::Status status = Flush();
  if (history_ != nullptr) status.Update(output_->queue()->Run([this] { return LeaveRing(); }));
  Manifest final = manifest;
  if (status.ok() && manifest.state == TraceState::kComplete) final.totals = Totals();
  status.Update(output_->queue()->Run([&] { return PutManifest(final, manifest.state); }));
  if (!status.ok()) PutLastWords(manifest, status);
  finished_ = true;
  lock_.Reset();
  if (history_ != nullptr && !name_.empty() && status.ok()) {
    kept_ = true;
    status.Update(output_->queue()->Run([this] {
      output_->KeepEnded(history_);
      return absl::OkStatus();
    }));
  }
  return status;
}

void TraceWriterImpl::PutLastWords(Manifest manifest, const absl::Status& status) {
  manifest.end_reason = absl::StrCat("the trace could not be written: ", status.message());
  output_->queue()
      ->RunAnyway([&] {
        output_->Release();
        return PutManifest(manifest, TraceState::kRecording);
      })
      .IgnoreError();
}

}  // namespace

absl::StatusOr<std::unique_ptr<TraceWriter>> TraceWriter::Create(const std::string& path,
                                                                 const Manifest& manifest,
                                                                 const WriterOptions& options,
                                                                 const RingLimits& ring) {
  Manifest own = manifest;
  own.ring = ring.text;
  if (own.uuid.empty()) {
    ASSIGN_OR_RETURN(own.uuid, NewUuid());
  }
  if (own.uuid.size() != kUuidBytes) return absl::InvalidArgumentError("a uuid has 16 bytes");
  ASSIGN_OR_RETURN(const OutputDirectory directory, OutputDirectory::Create(path));
  ASSIGN_OR_RETURN(UniqueFd lock, TakeTraceLock(directory, "lock"));
  auto writer =
      std::make_unique<TraceWriterImpl>(std::make_shared<RecordingOutput>(directory, options, ring),
                                        directory, "", own, std::move(lock));
  RETURN_IF_ERROR(writer->Start());
  return writer;
}

}  // namespace hindsight
