#include "cli/info/recording_info.h"

#include <filesystem>
#include <map>
#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "cli/process_choice.h"

namespace hindsight {
namespace {

std::string Name(const std::string& directory) {
  return std::filesystem::path(directory).filename().string();
}

// The indices of the processes' parents; their own where there is none.
std::vector<size_t> FindParents(const std::vector<ProcessInfo>& processes) {
  std::map<std::string, size_t> by_name;
  for (size_t i = 1; i < processes.size(); ++i) by_name[Name(processes[i].directory)] = i;
  std::vector<size_t> parents(processes.size());
  for (size_t i = 0; i < processes.size(); ++i) {
    parents[i] = i;
    if (i == 0 || processes[i].manifest.parent_pid == 0) continue;
    const auto found = by_name.find(Name(processes[i].manifest.parent_directory));
    // A process comes after its parent; a trace that says otherwise is damaged.
    parents[i] = found != by_name.end() && found->second < i ? found->second : 0;
  }
  return parents;
}

// The end of the process's recording, in nanoseconds since the whole began; 0: not known.
uint64_t EndNs(const Manifest& first, const Manifest& manifest) {
  if (manifest.state != TraceState::kComplete || first.parent_pid != 0) return 0;
  return manifest.end_time_ns + static_cast<uint64_t>(manifest.start_time_ns - first.start_time_ns);
}

std::unique_ptr<TraceReader> Summarize(const Manifest& first, bool positions, ProcessEntry* entry,
                                       std::vector<std::string>* warnings) {
  auto trace = TraceReader::Open(entry->process.files);
  entry->status = trace.status();
  if (!trace.ok()) return nullptr;
  for (const std::string& warning : (*trace)->warnings()) warnings->push_back(warning);
  entry->summary =
      Summarize(**trace, {.positions = positions, .end_ns = EndNs(first, entry->process.manifest)});
  entry->bytes = (*trace)->sizes().total;
  return *std::move(trace);
}

}  // namespace

uint64_t RecordingInfo::threads() const {
  uint64_t sum = 0;
  for (const ProcessEntry& entry : processes) sum += entry.summary.threads.size();
  return sum;
}

uint64_t RecordingInfo::instructions() const {
  uint64_t sum = 0;
  for (const ProcessEntry& entry : processes) sum += entry.summary.instructions;
  return sum;
}

uint64_t RecordingInfo::bytes() const {
  uint64_t sum = 0;
  for (const ProcessEntry& entry : processes) sum += entry.bytes;
  return sum;
}

absl::StatusOr<RecordingInfo> ReadRecording(const TraceDirectory& directory, bool positions) {
  RecordingInfo info;
  ASSIGN_OR_RETURN(const std::vector<ProcessInfo> processes,
                   ListProcesses(directory, &info.warnings));
  const std::vector<size_t> parents = FindParents(processes);
  std::vector<std::vector<size_t>> children(processes.size());
  // Those whose parent is not recorded stand below the first process too.
  for (size_t i = 1; i < processes.size(); ++i)
    children[parents[i] == i ? 0 : parents[i]].push_back(i);
  std::vector<std::pair<size_t, size_t>> open = {{0, 0}};  // process, depth
  while (!open.empty()) {
    const auto [i, depth] = open.back();
    open.pop_back();
    for (auto child = children[i].rbegin(); child != children[i].rend(); ++child) {
      open.emplace_back(*child, depth + 1);
    }
    ProcessEntry& entry = info.processes.emplace_back();
    entry.process = processes[i];
    entry.id = ProcessId(processes[i]);
    if (parents[i] != i) entry.parent = ProcessId(processes[parents[i]]);
    entry.depth = depth;
    auto trace = Summarize(processes[0].manifest, positions, &entry, &info.warnings);
    if (HasBeenDropped(processes[i], entry.status)) {
      info.processes.pop_back();
      continue;
    }
    if (i != 0) continue;
    RETURN_IF_ERROR(entry.status);
    info.first = std::move(trace);
  }
  return info;
}

}  // namespace hindsight
