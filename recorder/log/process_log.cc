#include "recorder/log/process_log.h"

#include <utility>

#include "base/status_macros.h"

namespace hindsight {
namespace {

// The whole map is logged again when the changes logged have as many regions as so many maps.
constexpr size_t kChangesPerMap = 4;

}  // namespace

ProcessLog::ProcessLog(std::unique_ptr<TraceWriter> writer, Manifest manifest, std::string root,
                       uint64_t max_module_bytes, std::shared_ptr<OpenedModules> files)
    : writer_(std::move(writer)),
      manifest_(std::move(manifest)),
      modules_(writer_.get(), std::move(root), max_module_bytes, std::move(files)) {}

absl::Status ProcessLog::RegisterFiles(absl::Span<MapRegion> regions, bool whole) {
  RETURN_IF_ERROR(modules_.Register(regions, whole));
  return LogChangedFiles();
}

// Their mappings no longer have the contents that the trace has.
absl::Status ProcessLog::LogChangedFiles() {
  for (const int32_t module : modules_.TakeChanged()) {
    RETURN_IF_ERROR(
        writer_->AppendEvent({.kind = EventKind::kFileChanged, .thread = pid(), .number = module}));
  }
  return absl::OkStatus();
}

void ProcessLog::LogMapChange(const MapPart& part, const AddressSpace& space, ThreadLog* log,
                              uint64_t count) {
  if (logged_regions_ >= kChangesPerMap * space.region_count()) {
    LogWholeMap(space, log, count);
    return;
  }
  logged_regions_ += part.regions.size() + 1;
  log->Event({.kind = EventKind::kMapPart,
              .count = count,
              .arguments = {part.start, part.end},
              .maps = part.regions});
}

void ProcessLog::LogWholeMap(const AddressSpace& space, ThreadLog* log, uint64_t count) {
  logged_regions_ = 0;
  log->Event({.kind = EventKind::kMapChange, .count = count, .maps = space.map().regions()});
}

absl::Status ProcessLog::WriteFullKeyframe(KeyframeHead head, pid_t thread, uint64_t count,
                                           const MemoryMap& map, bool with_memory) {
  RETURN_IF_ERROR(modules_.ReleaseUnmapped(map.regions()));
  head.number = ++full_keyframes_;
  const uint64_t before = writer_->bytes_written();
  if (with_memory) {
    RETURN_IF_ERROR(hindsight::WriteFullKeyframe(head, thread, map, modules_, writer_.get()));
  } else {
    RETURN_IF_ERROR(WriteKeyframeAtBirth(head, map, writer_.get()));
  }
  ProcessEvent event = {.kind = EventKind::kFullKeyframe,
                        .thread = thread,
                        .count = count,
                        .number = static_cast<int64_t>(full_keyframes_)};
  const uint64_t stood_ns = head.stood ? head.stood() : 0;
  if (head.stood) event.arguments = {stood_ns};
  RETURN_IF_ERROR(writer_->AppendEvent(event));
  if (!head.snapshot.has_value()) return absl::OkStatus();
  RETURN_IF_ERROR(writer_->AwaitFullKeyframe());
  return LogSnapshot(*head.snapshot, count, stood_ns, writer_->bytes_written() - before);
}

// Of the full keyframe written last.
absl::Status ProcessLog::LogSnapshot(const SnapshotReason& reason, uint64_t count,
                                     uint64_t stood_ns, uint64_t bytes) {
  ++snapshots_;
  return writer_->AppendEvent(
      {.kind = EventKind::kSnapshot,
       .thread = reason.thread,
       .count = count,
       .number = static_cast<int64_t>(full_keyframes_),
       .arguments = {reason.time_ns, reason.trigger, static_cast<uint64_t>(int64_t{reason.level}),
                     reason.class_number, reason.id, reason.skew_ns, stood_ns, bytes},
       .text = reason.text});
}

void ProcessLog::AddThread(const ThreadLog& log, uint64_t instructions, HostFeatures used) {
  ++totals_.threads;
  totals_.instructions += instructions;
  totals_.segments += log.segments();
  totals_.ordered_kernel_events += log.kernel_events();
  totals_.ordered_instructions += log.ordered_instructions();
  features_.Add(used);
}

absl::Status ProcessLog::LogExit(uint64_t count, int wait_status) {
  exit_status_ = wait_status;
  return writer_->AppendEvent(
      {.kind = EventKind::kProcessExit, .thread = pid(), .count = count, .number = wait_status});
}

absl::Status ProcessLog::Finish(uint64_t end_sequence, uint64_t end_time_ns) {
  RETURN_IF_ERROR(LogChangedFiles());
  manifest_.required_features = features_.Names();
  manifest_.state = TraceState::kComplete;
  manifest_.exit_status = end_reason_.empty() ? exit_status_ : -1;
  manifest_.end_reason = end_reason_;
  manifest_.ordered_kernel_events = totals_.ordered_kernel_events;
  manifest_.ordered_instructions = totals_.ordered_instructions;
  manifest_.end_sequence = end_sequence;
  manifest_.end_time_ns = end_time_ns;
  return writer_->Finish(manifest_);
}

}  // namespace hindsight
