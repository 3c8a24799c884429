#include "recorder/snapshot/snapshot_trace.h"

#include <algorithm>
#include <ctime>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "isa/registers.h"
#include "recorder/process/memory_map.h"
#include "recorder/process/process_facts.h"
#include "recorder/snapshot/copied_memory.h"

namespace hindsight {
namespace {

// As of recordings: larger files are listed, and their pages stored as far as they are in memory.
constexpr uint64_t kMaxModuleBytes = uint64_t{256} << 20;

int64_t EpochNs() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

std::vector<TraceWriter::ThreadState> States(const Capture& capture, uint64_t number) {
  std::vector<TraceWriter::ThreadState> states;
  for (const ThreadMoment& thread : capture.threads) {
    states.push_back({.thread = thread.thread,
                      .count = number,
                      .segment = 0,
                      .registers = ToWords(thread.registers)});
  }
  return states;
}

// The process has it, though its copy does not.
void AddWithheld(const SharedMemory& shared, std::vector<MapRegion>* regions) {
  for (const SharedMemory::Withheld& withheld : shared.withheld()) {
    if (!withheld.mapped) regions->push_back(withheld.region);
  }
  std::sort(regions->begin(), regions->end(),
            [](const MapRegion& a, const MapRegion& b) { return a.start < b.start; });
}

}  // namespace

Manifest SnapshotManifest(pid_t process, bool attached) {
  Manifest manifest;
  manifest.program = ExecutablePath(process);
  manifest.arguments = CommandLine(process);
  manifest.environment = Environment(process);
  manifest.working_directory = WorkingDirectory(process);
  manifest.pid = process;
  manifest.start_time_ns = EpochNs();
  manifest.host_cpu = CpuBrand();
  manifest.engine = "snapshots";
  manifest.register_layout = kRegisterLayout;
  manifest.cpu = "host";
  manifest.auxv = AuxiliaryVector(process);
  manifest.start_kind = attached ? "attach" : "launch";
  return manifest;
}

absl::StatusOr<std::unique_ptr<SnapshotTrace>> SnapshotTrace::Create(const std::string& directory,
                                                                     Manifest manifest,
                                                                     std::string root,
                                                                     const RingLimits& ring) {
  ASSIGN_OR_RETURN(std::unique_ptr<TraceWriter> writer,
                   TraceWriter::Create(directory, manifest, WriterOptions(), ring));
  return std::unique_ptr<SnapshotTrace>(
      new SnapshotTrace(std::move(writer), std::move(manifest), std::move(root)));
}

SnapshotTrace::SnapshotTrace(std::unique_ptr<TraceWriter> writer, Manifest manifest,
                             std::string root)
    : writer_(std::move(writer)),
      manifest_(std::move(manifest)),
      modules_(writer_.get(), std::move(root), kMaxModuleBytes) {
  writer_->KeepPageTable();
}

absl::Status SnapshotTrace::WriteKeyframe(const Capture& capture, uint64_t number) {
  MemoryMap map = MemoryMap::OfProcess(absl::StrCat("/proc/", capture.copy->pid(), "/maps"));
  if (map.regions().empty()) return absl::UnavailableError("the copy of the process is gone");
  AddWithheld(capture.shared, &map.mutable_regions());
  RETURN_IF_ERROR(modules_.Register(absl::MakeSpan(map.mutable_regions())));
  RETURN_IF_ERROR(modules_.ReleaseUnmapped(map.regions()));
  RETURN_IF_ERROR(
      writer_->BeginFullKeyframe(number, 0, States(capture, number), map.regions(), capture.auxv));
  const pid_t earlier = last_copy_ != nullptr ? last_copy_->pid() : 0;
  RETURN_IF_ERROR(AddCopiedMemory(capture, earlier, map, modules_, writer_.get()));
  RETURN_IF_ERROR(writer_->AddKernelState(capture.kernel));
  RETURN_IF_ERROR(writer_->FinishFullKeyframe());
  return writer_->Flush();
}

absl::Status SnapshotTrace::Write(Capture capture, bool keep) {
  const uint64_t number = snapshots_ + 1;
  const uint64_t before = bytes_written();
  const absl::Status written = WriteKeyframe(capture, number);
  last_copy_ = keep && written.ok() ? std::move(capture.copy) : nullptr;
  RETURN_IF_ERROR(written);
  snapshots_ = number;
  const SnapshotCause& cause = capture.cause;
  if (!cause.signal_info.empty()) {
    RETURN_IF_ERROR(writer_->AppendEvent({.kind = EventKind::kSignal,
                                          .thread = cause.thread,
                                          .count = number,
                                          .number = cause.id,
                                          .text = cause.signal_info}));
  }
  ProcessEvent event = {.kind = EventKind::kFullKeyframe,
                        .thread = cause.thread,
                        .count = number,
                        .number = static_cast<int64_t>(number),
                        .arguments = {capture.stood_ns}};
  RETURN_IF_ERROR(writer_->AppendEvent(event));
  event.kind = EventKind::kSnapshot;
  event.text = cause.text;
  event.arguments = {capture.time_ns,
                     cause.trigger,
                     static_cast<uint64_t>(int64_t{cause.level}),
                     cause.class_number,
                     cause.id,
                     capture.skew_ns,
                     capture.stood_ns,
                     bytes_written() - before,
                     capture.arrivals};
  RETURN_IF_ERROR(writer_->AppendEvent(event));
  return writer_->Flush();
}

absl::Status SnapshotTrace::Finish(int wait_status, const std::string& reason, uint64_t time_ns) {
  if (wait_status >= 0) {
    RETURN_IF_ERROR(writer_->AppendEvent({.kind = EventKind::kProcessExit,
                                          .thread = manifest_.pid,
                                          .count = snapshots_,
                                          .number = wait_status}));
  }
  manifest_.state = TraceState::kComplete;
  manifest_.exit_status = wait_status;
  manifest_.end_reason = reason;
  manifest_.end_time_ns = time_ns;
  return writer_->Finish(manifest_);
}

}  // namespace hindsight
