#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "tracefmt/manifest_codec.h"
#include "tracefmt/storage/read_budget.h"
#include "tracefmt/storage/trace_directory.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {
namespace {

// A process and its name in processes/; the first one's is empty.
struct Named {
  std::string name;
  ProcessInfo process;
};

// Of the processes that cannot be read, this many are named.
constexpr size_t kMaxWarnings = 1000;

// The name of the parent's trace, "" for the recording's first process. Anything else, as in a
// damaged manifest, is taken for the first process too.
std::string ParentName(const Manifest& manifest) {
  absl::string_view parent = manifest.parent_directory;
  if (!absl::ConsumePrefix(&parent, "../") || parent == "..") return "";
  return std::string(parent);
}

// PID, or PID-2 and so on. A ring gives a trace another name before it removes it.
bool IsProcessName(absl::string_view name) {
  const auto is_number = [](absl::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == absl::string_view::npos;
  };
  const size_t dash = name.find('-');
  return is_number(name.substr(0, dash)) &&
         (dash == absl::string_view::npos || is_number(name.substr(dash + 1)));
}

// Whether a recorder died before it recorded anything here: the manifest comes before all segments.
bool IsUnborn(const TraceDirectory& trace) { return trace.Entries("threads").empty(); }

std::vector<Named> ReadChildren(const TraceDirectory& any, ReadBudget* budget,
                                std::vector<std::string>* warnings) {
  std::vector<Named> children;
  for (const std::string& name : any.ProcessNames()) {
    if (!IsProcessName(name)) continue;
    const absl::StatusOr<TraceDirectory> trace = any.Process(name);
    if (!trace.ok()) continue;
    absl::StatusOr<Manifest> manifest = ReadTraceManifest(*trace, budget);
    if (manifest.ok()) {
      children.push_back({name, {trace->path(), *std::move(manifest), *trace}});
    } else if (warnings != nullptr && warnings->size() < kMaxWarnings &&
               !(absl::IsNotFound(manifest.status()) && IsUnborn(*trace))) {
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

absl::Status CheckAncestry(const TraceDirectory& trace) {
  std::set<std::string> names = {trace.name()};
  bool may_be_gone = false;
  for (TraceDirectory at = trace; names.size() <= kMaxAncestors + 1;) {
    ReadBudget budget(kManifestsBudgetBytes, kManifestsBudgetMultiple);
    const absl::StatusOr<Manifest> manifest = ReadTraceManifest(at, &budget);
    if (may_be_gone && absl::IsNotFound(manifest.status())) return absl::OkStatus();
    RETURN_IF_ERROR(manifest.status());
    if (manifest->parent_pid == 0 || manifest->parent_directory.empty()) return absl::OkStatus();
    absl::StatusOr<TraceDirectory> parent = at.Parent(manifest->parent_directory);
    RETURN_IF_ERROR(parent.status());
    // Of a ring, the trace of a parent that has ended.
    may_be_gone = !manifest->ring.empty();
    at = *std::move(parent);
    if (!names.insert(at.name()).second) {
      return absl::DataLossError(absl::StrCat(at.path(), ": is its own ancestor"));
    }
  }
  return absl::ResourceExhaustedError(
      absl::StrCat(trace.path(), ": has more than ", kMaxAncestors, " ancestors"));
}

bool HasBeenDropped(const ProcessInfo& process, const absl::Status& opened) {
  return absl::IsNotFound(opened) && !process.manifest.ring.empty() &&
         !process.files.name().empty();
}

absl::StatusOr<std::vector<ProcessInfo>> ListProcesses(const TraceDirectory& directory,
                                                       std::vector<std::string>* warnings) {
  ReadBudget budget(kManifestsBudgetBytes, kManifestsBudgetMultiple);
  ASSIGN_OR_RETURN(Manifest manifest, ReadTraceManifest(directory, &budget));
  std::vector<ProcessInfo> processes = {{directory.path(), std::move(manifest), directory}};
  std::vector<Named> children = ReadChildren(directory, &budget, warnings);
  if (directory.name().empty()) {
    for (Named& child : children) processes.push_back(std::move(child.process));
    return processes;
  }
  std::map<std::string, std::string> parents;
  for (const Named& child : children) parents[child.name] = ParentName(child.process.manifest);
  for (Named& child : children) {
    if (child.name != directory.name() && Descends(child.name, directory.name(), parents)) {
      processes.push_back(std::move(child.process));
    }
  }
  return processes;
}

absl::StatusOr<std::vector<ProcessInfo>> ListProcesses(const std::string& path,
                                                       std::vector<std::string>* warnings) {
  ASSIGN_OR_RETURN(const TraceDirectory directory, TraceDirectory::Open(path));
  return ListProcesses(directory, warnings);
}

}  // namespace hindsight
