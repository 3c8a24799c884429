#include "tracefmt/recording_layout.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "tracefmt/manifest_codec.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {
namespace {

namespace fs = std::filesystem;

// A process and its name in processes/; the first one's is empty.
struct Named {
  std::string name;
  ProcessInfo process;
};

// The name of the parent's trace, "" for the recording's first process. What is no such name, as in
// a damaged manifest, stands for the first process too.
std::string ParentName(const Manifest& manifest) {
  absl::string_view parent = manifest.parent_directory;
  if (!absl::ConsumePrefix(&parent, "../") || parent == "..") return "";
  return std::string(parent);
}

// Whether a recorder died before it recorded anything here: the manifest comes before all segments.
bool IsUnborn(const std::string& trace) {
  std::error_code error;
  const fs::directory_iterator threads(trace + "/threads", error);
  return error || threads == fs::directory_iterator();
}

std::vector<Named> ReadChildren(const std::string& recording, std::vector<std::string>* warnings) {
  std::vector<Named> children;
  const std::string directory = absl::StrCat(recording, "/", kProcessesDirectory);
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const std::string trace = absl::StrCat(directory, "/", name);
    absl::StatusOr<Manifest> manifest = ReadTraceManifest(trace);
    if (manifest.ok()) {
      children.push_back({name, {trace, *std::move(manifest)}});
    } else if (warnings != nullptr && !(absl::IsNotFound(manifest.status()) && IsUnborn(trace))) {
      warnings->push_back(absl::StrCat("process left out: ", manifest.status().message()));
    }
  }
  std::sort(children.begin(), children.end(), [](const Named& a, const Named& b) {
    const auto key = [](const Named& child) {
      const Manifest& manifest = child.process.manifest;
      return std::tie(manifest.start_time_ns, manifest.parent_sequence, child.name);
    };
    return key(a) < key(b);
  });
  return children;
}

// Whether `name` is `ancestor` or one of its descendants.
bool Descends(std::string name, const std::string& ancestor,
              const std::map<std::string, std::string>& parents) {
  // A damaged recording may have a circle of parents.
  for (size_t steps = 0; steps <= parents.size(); ++steps) {
    if (name == ancestor) return true;
    const auto found = parents.find(name);
    if (found == parents.end()) return false;
    name = found->second;
  }
  return false;
}

}  // namespace

std::string RecordingOf(const std::string& directory) {
  std::error_code error;
  const fs::path trace = fs::canonical(directory, error);
  if (error || trace.parent_path().filename() != kProcessesDirectory) return "";
  const fs::path recording = trace.parent_path().parent_path();
  return fs::exists(recording / "manifest", error) ? recording.string() : "";
}

absl::StatusOr<std::vector<ProcessInfo>> ListProcesses(const std::string& directory,
                                                       std::vector<std::string>* warnings) {
  ASSIGN_OR_RETURN(Manifest manifest, ReadTraceManifest(directory));
  std::vector<ProcessInfo> processes = {{directory, std::move(manifest)}};
  const std::string recording = RecordingOf(directory);
  std::vector<Named> children = ReadChildren(recording.empty() ? directory : recording, warnings);
  if (recording.empty()) {
    for (Named& child : children) processes.push_back(std::move(child.process));
    return processes;
  }
  std::error_code error;
  const std::string own_name = fs::canonical(directory, error).filename().string();
  std::map<std::string, std::string> parents;
  for (const Named& child : children) parents[child.name] = ParentName(child.process.manifest);
  for (Named& child : children) {
    if (child.name != own_name && Descends(child.name, own_name, parents)) {
      processes.push_back(std::move(child.process));
    }
  }
  return processes;
}

}  // namespace hindsight
