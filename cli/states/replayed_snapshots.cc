#include "cli/states/replayed_snapshots.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "keyframes/inspect/snapshot_view.h"
#include "keyframes/state/snapshot_list.h"

namespace hindsight {
namespace {

// As those that `hindsight snap` makes.
constexpr uint64_t kMaxModuleBytes = uint64_t{256} << 20;

absl::StatusOr<UniqueFd> FileOf(absl::Span<const uint8_t> bytes) {
  UniqueFd file(memfd_create("module", MFD_CLOEXEC));
  if (!file.valid()) return absl::ErrnoToStatus(errno, "memfd_create");
  while (!bytes.empty()) {
    const ssize_t written = write(file.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return absl::ErrnoToStatus(errno, "a module's bytes");
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return file;
}

bool IsZero(absl::Span<const uint8_t> bytes) {
  return bytes[0] == 0 && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

// Whether `bytes` are those of the file at `offset`, with zeros after its end.
bool IsOfFile(absl::Span<const uint8_t> bytes, absl::Span<const uint8_t> file, uint64_t offset) {
  if (offset >= file.size()) return false;
  const absl::Span<const uint8_t> part = file.subspan(offset, bytes.size());
  return std::equal(part.begin(), part.end(), bytes.begin()) &&
         (part.size() == bytes.size() || IsZero(bytes.subspan(part.size())));
}

std::vector<uint64_t> WordsOf(const std::string& bytes) {
  std::vector<uint64_t> words(bytes.size() / sizeof(uint64_t));
  std::memcpy(words.data(), bytes.data(), words.size() * sizeof(uint64_t));
  return words;
}

Manifest SnapshotManifest(const Manifest& source, const std::string& program) {
  Manifest manifest;
  manifest.program = program;
  manifest.arguments = source.arguments;
  manifest.environment = source.environment;
  manifest.working_directory = source.working_directory;
  manifest.pid = source.pid;
  manifest.start_time_ns = source.start_time_ns;
  manifest.host_cpu = source.host_cpu;
  manifest.engine = kSnapshotEngine;
  manifest.register_layout = kRegisterLayout;
  manifest.cpu = source.cpu;
  manifest.auxv = source.auxv;
  manifest.start_kind = source.start_kind;
  return manifest;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ReplayedSnapshots>> ReplayedSnapshots::Create(
    const std::string& directory, const TraceReader* source, const std::string& program) {
  Manifest manifest = SnapshotManifest(source->manifest(), program);
  ASSIGN_OR_RETURN(std::unique_ptr<TraceWriter> writer, TraceWriter::Create(directory, manifest));
  return std::unique_ptr<ReplayedSnapshots>(
      new ReplayedSnapshots(std::move(writer), std::move(manifest), source));
}

absl::StatusOr<int32_t> ReplayedSnapshots::ModuleOf(int32_t module) {
  const auto listed = source_->modules().find(module);
  if (listed == source_->modules().end()) return -1;
  if (const auto known = modules_.find(module); known != modules_.end()) return known->second;
  int32_t index = -1;
  if (const auto bytes = source_->ModuleBytes(module); bytes.ok()) {
    ASSIGN_OR_RETURN(const UniqueFd file, FileOf(*bytes));
    ASSIGN_OR_RETURN(index, writer_->AddModule(listed->second.path, file.get(), kMaxModuleBytes));
  }
  modules_[module] = index;
  return index;
}

absl::StatusOr<std::vector<MapRegion>> ReplayedSnapshots::Maps(ProcessView* view) {
  std::vector<MapRegion> maps = view->Regions();
  for (MapRegion& region : maps) {
    ASSIGN_OR_RETURN(region.module, ModuleOf(region.module));
  }
  return maps;
}

absl::StatusOr<std::vector<TraceWriter::ThreadState>> ReplayedSnapshots::States(ProcessView* view) {
  std::vector<TraceWriter::ThreadState> states;
  for (const int32_t thread : view->threads()) {
    ASSIGN_OR_RETURN(const RegisterFile registers, view->Registers(thread));
    states.push_back(
        {.thread = thread, .count = snapshots_ + 1, .segment = 0, .registers = ToWords(registers)});
  }
  return states;
}

absl::Status ReplayedSnapshots::AddPage(uint64_t page, absl::Span<const uint8_t> bytes,
                                        const MapRegion& region,
                                        absl::Span<const uint8_t> of_file) {
  if (BeginsAsZeros(region) && IsZero(bytes)) return absl::OkStatus();
  const uint64_t offset = region.file_offset + (page - region.start);
  if (region.module >= 0 && IsOfFile(bytes, of_file, offset)) {
    return writer_->AddModulePage(page, region.module, offset);
  }
  return writer_->AddPage(page, bytes);
}

absl::Status ReplayedSnapshots::AddRegion(ProcessView* view, int32_t thread,
                                          const MapRegion& region, const MapRegion& of_source,
                                          Ranges* unseen) {
  absl::Span<const uint8_t> of_file;
  if (region.module >= 0) {
    ASSIGN_OR_RETURN(of_file, source_->ModuleBytes(of_source.module));
  }
  // Reserved address space may be terabytes.
  constexpr uint64_t kMostReservedBytes = uint64_t{1} << 30;
  if (region.protection == PROT_NONE && region.end - region.start > kMostReservedBytes) {
    unseen->push_back({region.start, region.end});
    return absl::OkStatus();
  }
  std::array<uint8_t, kPageBytes> bytes;
  for (uint64_t page = region.start; page < region.end; page += kPageBytes) {
    const absl::StatusOr<size_t> known = view->ReadMemory(thread, page, absl::MakeSpan(bytes));
    if (known.ok() && *known == bytes.size()) {
      RETURN_IF_ERROR(AddPage(page, bytes, region, of_file));
    } else if (known.ok() || absl::IsNotFound(known.status())) {
      if (unseen->empty() || unseen->back().second != page) unseen->push_back({page, page});
      unseen->back().second = page + kPageBytes;
    } else {
      return known.status();
    }
  }
  return absl::OkStatus();
}

absl::Status ReplayedSnapshots::AddNames(ProcessView* view) {
  const uint64_t number = snapshots_ + 1;
  if (const std::string program = view->ExecutablePath(); program != program_) {
    RETURN_IF_ERROR(
        writer_->AppendEvent({.kind = EventKind::kExec, .count = number, .text = program}));
    program_ = program;
  }
  for (const int32_t thread : view->threads()) {
    const std::string name = view->ThreadName(thread);
    if (names_[thread] == name) continue;
    RETURN_IF_ERROR(writer_->AppendEvent(
        {.kind = EventKind::kThreadName, .thread = thread, .count = number, .text = name}));
    names_[thread] = name;
  }
  return absl::OkStatus();
}

absl::Status ReplayedSnapshots::AddEvents(const ReplayedCause& cause, uint64_t bytes_before) {
  ProcessEvent event = {.kind = EventKind::kFullKeyframe,
                        .thread = cause.thread,
                        .count = snapshots_,
                        .number = static_cast<int64_t>(snapshots_)};
  RETURN_IF_ERROR(writer_->AppendEvent(event));
  event.kind = EventKind::kSnapshot;
  event.text = cause.text;
  event.arguments = {cause.time_ns,     cause.trigger,
                     /*level=*/0,
                     /*class=*/0,
                     /*id=*/0,
                     /*skew=*/0,
                     /*stood still=*/0, bytes_written() - bytes_before};
  return writer_->AppendEvent(event);
}

absl::Status ReplayedSnapshots::Write(ProcessView* view, const ReplayedCause& cause) {
  const uint64_t before = bytes_written();
  ASSIGN_OR_RETURN(const std::vector<TraceWriter::ThreadState> states, States(view));
  ASSIGN_OR_RETURN(const std::vector<MapRegion> maps, Maps(view));
  const std::vector<uint64_t> auxv = WordsOf(view->Auxv().value_or(""));
  RETURN_IF_ERROR(AddNames(view));
  RETURN_IF_ERROR(writer_->BeginFullKeyframe(snapshots_ + 1, /*sequence=*/0, states, maps, auxv));
  const std::vector<MapRegion> of_source = view->Regions();
  Ranges unseen;
  for (size_t i = 0; i < maps.size(); ++i) {
    RETURN_IF_ERROR(AddRegion(view, cause.thread, maps[i], of_source[i], &unseen));
  }
  RETURN_IF_ERROR(writer_->DeclareComplete(unseen));
  RETURN_IF_ERROR(writer_->FinishFullKeyframe());
  RETURN_IF_ERROR(writer_->AwaitFullKeyframe());
  ++snapshots_;
  RETURN_IF_ERROR(AddEvents(cause, before));
  return writer_->Flush();
}

absl::Status ReplayedSnapshots::Finish() {
  manifest_.state = TraceState::kComplete;
  manifest_.exit_status = -1;
  manifest_.end_reason = "snapshots of a recording";
  manifest_.end_time_ns = source_->manifest().end_time_ns;
  return writer_->Finish(manifest_);
}

}  // namespace hindsight
