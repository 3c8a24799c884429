#include "tracefmt/trace_writer.h"

#include <sys/random.h>

#include <cerrno>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "tracefmt/event_codec.h"
#include "tracefmt/keyframe_writer.h"
#include "tracefmt/manifest_codec.h"
#include "tracefmt/module_store.h"
#include "tracefmt/record_columns.h"
#include "tracefmt/recording_output.h"
#include "tracefmt/storage/append_file.h"
#include "tracefmt/storage/message.h"
#include "tracefmt/storage/output_directory.h"
#include "tracefmt/storage/trace_directory.h"
#include "tracefmt/storage/trace_lock.h"
#include "tracefmt/trace.capnp.h"

namespace hindsight {
namespace {

// Raw size at which a block is written without being asked to.
constexpr size_t kBlockBytes = 256 << 10;
constexpr size_t kMaxRunCounts = 32 << 10;
// Beyond a manifest of the size of the first one; a file system rounds up.
constexpr size_t kReservedBytes = 32 << 10;

absl::StatusOr<std::string> NewUuid() {
  std::string uuid(kUuidBytes, '\0');
  if (getrandom(uuid.data(), uuid.size(), 0) != static_cast<ssize_t>(uuid.size())) {
    return absl::ErrnoToStatus(errno, "getrandom");
  }
  return uuid;
}

// The state a segment is known to get to with `record`; `before` without it. See
// Segment::end_count.
uint64_t EndWith(const Record& record, uint64_t before) {
  if (const auto* run = std::get_if<OrderRun>(&record.body)) return run->counts.back() + 1;
  if (std::holds_alternative<SideEffect>(record.body) ||
      std::holds_alternative<Discontinuity>(record.body)) {
    return record.count + 1;
  }
  const bool state = std::holds_alternative<RegisterHash>(record.body) ||
                     std::holds_alternative<SegmentEnd>(record.body) ||
                     std::holds_alternative<Gap>(record.body);
  return state ? record.count : before;
}

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
        keyframes_(directory_.In("full"), manifest_.uuid, output_->queue(), output_->encoder(),
                   &pages_, output_->bytes_written()) {}

  ~TraceWriterImpl() override {
    // Without Finish the trace is left as it would be by a recorder that died right after a Flush.
    if (!finished_) {
      const absl::Status status = Flush();
      if (!status.ok()) PutLastWords(manifest_, status);
    }
    output_->queue()->Drain().IgnoreError();  // its jobs use this
  }

  absl::Status Start() {
    for (const char* name : {"modules", "threads", "full"}) {
      RETURN_IF_ERROR(directory_.MakeDirectory(name));
    }
    return output_->queue()->Run([this]() -> absl::Status {
      ASSIGN_OR_RETURN(modules_,
                       ModuleStore::Create(directory_.In("modules"), output_->modules(),
                                           output_->encoder(), &pages_, output_->bytes_written()));
      ASSIGN_OR_RETURN(events_file_,
                       AppendFile::Create(directory_, "events", output_->bytes_written()));
      RETURN_IF_ERROR(PutManifest(manifest_, TraceState::kRecording));
      // The final manifest is hardly larger than this one.
      if (name_.empty()) output_->Reserve(output_->bytes_written()->load() + kReservedBytes);
      return absl::OkStatus();
    });
  }

  absl::StatusOr<std::unique_ptr<TraceWriter>> CreateChild(const Manifest& manifest) override;

  absl::StatusOr<int32_t> AddModule(const std::string& path, int fd, uint64_t max_bytes) override {
    absl::StatusOr<int32_t> index = 0;
    RETURN_IF_ERROR(output_->queue()->Run([&] {
      absl::Status io;
      index = modules_->Add(path, fd, max_bytes, &io);
      return io;
    }));
    return index;
  }

  absl::Status BeginSegment(int32_t thread, uint64_t number, uint64_t count, uint64_t sequence,
                            const RegisterWords& registers) override;
  absl::Status Append(int32_t thread, const Record& record) override;
  absl::Status AppendEvent(const ProcessEvent& event) override;

  absl::Status BeginFullKeyframe(uint64_t number, uint64_t sequence,
                                 const std::vector<ThreadState>& threads,
                                 const std::vector<MapRegion>& maps,
                                 absl::Span<const uint64_t> auxv) override {
    return keyframes_.Begin(number, sequence, threads, maps, auxv);
  }
  absl::Status AddPage(uint64_t address, absl::Span<const uint8_t> bytes) override {
    return keyframes_.AddPage(address, bytes);
  }
  absl::Status AddModulePage(uint64_t address, int32_t module, uint64_t offset) override {
    if (!modules_->IsStored(module)) {
      return absl::InvalidArgumentError(absl::StrCat("module ", module, " is not stored"));
    }
    return keyframes_.AddReference(
        address, {PageSourceKind::kModule, static_cast<uint32_t>(module), offset});
  }
  absl::Status DeclareComplete(const std::vector<std::pair<uint64_t, uint64_t>>& unseen) override {
    return keyframes_.DeclareComplete(unseen);
  }
  absl::Status FinishFullKeyframe() override { return keyframes_.Finish(); }

  absl::Status Flush() override;
  absl::Status Finish(const Manifest& manifest) override;

  void CloseThread(int32_t thread) override;
  uint64_t bytes_written() const override {
    return output_->bytes_written()->load(std::memory_order_relaxed);
  }

 private:
  // A thread's newest segment.
  struct ThreadSegment {
    bool open = false;
    uint64_t next_number = 0;
    ThreadTotals totals;
    uint64_t records = 0;                               // in the blocks before `columns`
    uint64_t raw_bytes = 0;                             // of those blocks, about
    uint64_t ordered_counts = 0;                        // in those blocks
    std::shared_ptr<std::unique_ptr<AppendFile>> file;  // made on the queue
    std::unique_ptr<RecordColumns> columns;
  };

  absl::Status PutManifest(Manifest manifest, TraceState state) {
    manifest.uuid = manifest_.uuid;
    manifest.parent_directory = manifest_.parent_directory;
    manifest.state = state;
    return WriteManifest(directory_, manifest, output_->encoder(), output_->bytes_written());
  }
  TraceTotals Totals() const;
  // Leaves the trace as interrupted, with the reason.
  void PutLastWords(Manifest manifest, const absl::Status& status);
  absl::Status AppendRecord(ThreadSegment* segment, const Record& record);
  absl::Status AppendRun(ThreadSegment* segment, const Record& record);
  absl::Status PostRecords(ThreadSegment* segment);
  absl::Status PostEvents();

  const std::shared_ptr<RecordingOutput> output_;
  const OutputDirectory directory_;
  const std::string name_;
  const Manifest manifest_;  // at the start
  UniqueFd lock_;
  bool finished_ = false;
  PageIndex pages_;  // used on the queue while it runs AddModule, else on the caller's thread
  std::unique_ptr<AppendFile> events_file_;
  std::unique_ptr<ModuleStore> modules_;
  std::map<int32_t, ThreadSegment> segments_;
  std::vector<ProcessEvent> events_;
  size_t event_bytes_ = 0;
  uint64_t event_count_ = 0;
  KeyframeWriter keyframes_;
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

absl::Status TraceWriterImpl::BeginSegment(int32_t thread, uint64_t number, uint64_t count,
                                           uint64_t sequence, const RegisterWords& registers) {
  ThreadSegment& segment = segments_[thread];
  if (segment.open || number != segment.next_number) {
    return absl::FailedPreconditionError(
        absl::StrCat("segment ", number, " of thread ", thread, " cannot begin here"));
  }
  const std::string directory = absl::StrCat("threads/", thread);
  if (number == 0) RETURN_IF_ERROR(directory_.MakeDirectory(directory));
  segment.open = true;
  segment.next_number = number + 1;
  segment.totals.end_count = count;
  segment.records = 0;
  segment.raw_bytes = 0;
  segment.ordered_counts = 0;
  segment.file = std::make_shared<std::unique_ptr<AppendFile>>();
  segment.columns = std::make_unique<RecordColumns>(0, count);
  auto message = std::make_shared<capnp::MallocMessageBuilder>();
  auto header = message->initRoot<wire::SegmentHeader>();
  header.setUuid(AsData(manifest_.uuid));
  header.setThread(thread);
  header.setNumber(number);
  header.setFirstCount(count);
  header.setFirstSequence(sequence);
  FillList(header.initRegisters(registers.size()), registers);
  const std::string name = absl::StrCat(directory, "/", number, ".seg");
  return output_->queue()->Post([this, message, name, file = segment.file]() -> absl::Status {
    ASSIGN_OR_RETURN(*file, AppendFile::Create(directory_, name, output_->bytes_written()));
    return AppendMessage(file->get(), BlockKind::kSegmentHeader, output_->encoder(), *message);
  });
}

absl::Status TraceWriterImpl::Append(int32_t thread, const Record& record) {
  const auto found = segments_.find(thread);
  if (found == segments_.end() || !found->second.open) {
    return absl::FailedPreconditionError(absl::StrCat("thread ", thread, " has no open segment"));
  }
  ThreadSegment& segment = found->second;
  if (record.count < segment.columns->last_count()) {
    return absl::InvalidArgumentError(absl::StrCat("count ", record.count, " of thread ", thread,
                                                   " is less than that of the record before"));
  }
  return std::holds_alternative<OrderRun>(record.body) ? AppendRun(&segment, record)
                                                       : AppendRecord(&segment, record);
}

// A long run becomes several records, so that blocks keep their size.
absl::Status TraceWriterImpl::AppendRun(ThreadSegment* segment, const Record& record) {
  const OrderRun& run = std::get<OrderRun>(record.body);
  uint64_t next = segment->columns->last_count();
  for (const uint64_t count : run.counts) {
    if (count < next || count >= record.count) {
      return absl::InvalidArgumentError(
          absl::StrCat("count ", count, " of an ordered instruction is out of order"));
    }
    next = count + 1;
  }
  for (size_t done = 0; done < run.counts.size(); done += kMaxRunCounts) {
    const OrderRun part = {run.first_sequence + done, run.counts.subspan(done, kMaxRunCounts)};
    const bool last = done + part.counts.size() == run.counts.size();
    RETURN_IF_ERROR(AppendRecord(segment, {last ? record.count : part.counts.back() + 1, part}));
  }
  return absl::OkStatus();
}

absl::Status TraceWriterImpl::AppendRecord(ThreadSegment* segment, const Record& record) {
  if (!segment->columns->Fits(record.count)) {
    // A new block has a new base that differences are taken from.
    RETURN_IF_ERROR(PostRecords(segment));
    segment->columns = std::make_unique<RecordColumns>(segment->records, record.count);
  }
  segment->columns->Add(record);
  ++segment->totals.records;
  segment->totals.end_count = EndWith(record, segment->totals.end_count);
  const bool ends =
      std::holds_alternative<SegmentEnd>(record.body) || std::holds_alternative<Gap>(record.body);
  if (!ends && segment->columns->raw_bytes() < kBlockBytes) return absl::OkStatus();
  RETURN_IF_ERROR(PostRecords(segment));
  if (ends) {
    segment->open = false;
    segment->file.reset();
    segment->columns.reset();
  }
  return absl::OkStatus();
}

absl::Status TraceWriterImpl::PostRecords(ThreadSegment* segment) {
  if (segment->columns->empty()) return absl::OkStatus();
  // Events first: without its slices nobody could tell where among the other threads' a state
  // stands.
  RETURN_IF_ERROR(PostEvents());
  segment->records += segment->columns->size();
  segment->raw_bytes += segment->columns->raw_bytes();
  segment->ordered_counts += segment->columns->ordered_counts();
  if (segment->records > kMaxSegmentRecords || segment->raw_bytes > kMaxSegmentRawBytes / 2 ||
      segment->ordered_counts > kMaxSegmentOrderedCounts) {
    return absl::ResourceExhaustedError("the segment is too large");
  }
  std::shared_ptr<RecordColumns> columns = std::move(segment->columns);
  segment->columns = std::make_unique<RecordColumns>(segment->records, columns->last_count());
  return output_->queue()->Post([this, columns, file = segment->file] {
    capnp::MallocMessageBuilder message(columns->raw_bytes() / sizeof(capnp::word) + 256);
    columns->Build(message.initRoot<wire::RecordBlock>());
    return AppendMessage(file->get(), BlockKind::kRecords, output_->encoder(), message);
  });
}

absl::Status TraceWriterImpl::AppendEvent(const ProcessEvent& event) {
  events_.push_back(event);
  ++event_count_;
  event_bytes_ += EventBytes(event);
  return event_bytes_ < kBlockBytes ? absl::OkStatus() : PostEvents();
}

absl::Status TraceWriterImpl::PostEvents() {
  if (events_.empty()) return absl::OkStatus();
  auto events = std::make_shared<std::vector<ProcessEvent>>(std::exchange(events_, {}));
  const size_t bytes = std::exchange(event_bytes_, 0);
  return output_->queue()->Post([this, events, bytes] {
    capnp::MallocMessageBuilder message(bytes / sizeof(capnp::word) + 64);
    BuildEvents(*events, message.initRoot<wire::EventBlock>());
    return AppendMessage(events_file_.get(), BlockKind::kEvents, output_->encoder(), message);
  });
}

absl::Status TraceWriterImpl::Flush() {
  for (auto& [thread, segment] : segments_) {
    if (segment.open) RETURN_IF_ERROR(PostRecords(&segment));
  }
  RETURN_IF_ERROR(PostEvents());
  return output_->queue()->Drain();
}

TraceTotals TraceWriterImpl::Totals() const {
  TraceTotals totals;
  for (const auto& [thread, segment] : segments_) {
    if (segment.next_number == 0) continue;  // its first segment was refused
    totals.threads.push_back(segment.totals);
    totals.threads.back().thread = thread;
    totals.threads.back().segments = segment.next_number;
  }
  totals.events = event_count_;
  totals.full_keyframes = keyframes_.finished();
  totals.modules = modules_->size();
  return totals;
}

absl::Status TraceWriterImpl::Finish(const Manifest& manifest) {
  absl::Status status = Flush();
  Manifest final = manifest;
  if (status.ok() && manifest.state == TraceState::kComplete) final.totals = Totals();
  status.Update(output_->queue()->Run([&] { return PutManifest(final, manifest.state); }));
  if (!status.ok()) PutLastWords(manifest, status);
  finished_ = true;
  lock_.Reset();
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

void TraceWriterImpl::CloseThread(int32_t thread) {
  const auto found = segments_.find(thread);
  if (found == segments_.end()) return;
  ThreadSegment& segment = found->second;
  if (segment.open) PostRecords(&segment).IgnoreError();  // sticky: the next call returns it
  // Not forgotten: an exec gives the process's first thread, which may have ended, a new life.
  ThreadSegment closed;
  closed.next_number = segment.next_number;
  closed.totals = segment.totals;
  segment = std::move(closed);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TraceWriter>> TraceWriter::Create(const std::string& path,
                                                                 const Manifest& manifest) {
  Manifest own = manifest;
  if (own.uuid.empty()) {
    ASSIGN_OR_RETURN(own.uuid, NewUuid());
  }
  if (own.uuid.size() != kUuidBytes) return absl::InvalidArgumentError("a uuid has 16 bytes");
  ASSIGN_OR_RETURN(const OutputDirectory directory, OutputDirectory::Create(path));
  ASSIGN_OR_RETURN(UniqueFd lock, TakeTraceLock(directory, "lock"));
  auto writer = std::make_unique<TraceWriterImpl>(std::make_shared<RecordingOutput>(directory),
                                                  directory, "", own, std::move(lock));
  RETURN_IF_ERROR(writer->Start());
  return writer;
}

}  // namespace hindsight
