#include "cli/process_choice.h"

#include <sys/wait.h>

#include <csignal>
#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace hindsight {
namespace {

constexpr size_t kListed = 20;

std::string BaseName(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

// "12 (make), 13 (cc1)".
std::string List(absl::Span<const ProcessName> processes, const std::vector<size_t>& indices) {
  std::vector<std::string> names;
  for (const size_t i : indices) {
    if (names.size() == kListed) {
      names.push_back("...");
      break;
    }
    names.push_back(absl::StrCat(processes[i].id, " (", BaseName(processes[i].program), ")"));
  }
  return absl::StrJoin(names, ", ");
}

}  // namespace

std::string ProcessId(const ProcessInfo& process) {
  // The directory identifies a later process of the same pid; that of the first process is
  // the user's.
  const std::string pid = absl::StrCat(process.manifest.pid);
  const std::filesystem::path path(process.directory);
  const std::string name = path.filename().string();
  const bool child = path.parent_path().filename() == "processes";
  return child && name.rfind(pid + "-", 0) == 0 ? name : pid;
}

std::string LastProgram(const TraceReader& trace) {
  std::string program = trace.manifest().program;
  for (const ProcessEvent& event : trace.events()) {
    if (event.kind == EventKind::kExec && !event.text.empty()) program = event.text;
  }
  return program;
}

bool Crashed(const ProcessInfo& process) {
  const int status = process.manifest.exit_status;
  if (status == -1 || !WIFSIGNALED(status)) return false;
  switch (WTERMSIG(status)) {
    case SIGILL:
    case SIGTRAP:
    case SIGABRT:
    case SIGBUS:
    case SIGFPE:
    case SIGSEGV:
    case SIGSYS:
    case SIGXCPU:
    case SIGXFSZ:
      return true;
    default:
      return false;
  }
}

absl::StatusOr<size_t> ChooseProcess(absl::Span<const ProcessName> processes,
                                     absl::string_view wanted) {
  std::vector<size_t> all, named, crashed;
  for (size_t i = 0; i < processes.size(); ++i) {
    if (processes[i].id == wanted) return i;
    const std::string& program = processes[i].program;
    if (program == wanted || BaseName(program) == wanted) named.push_back(i);
    if (processes[i].crashed) crashed.push_back(i);
    all.push_back(i);
  }
  if (named.empty() && wanted == "crashed") {
    if (crashed.size() == 1) return crashed[0];
    if (crashed.empty()) return absl::NotFoundError("no process of the recording crashed");
    return absl::FailedPreconditionError(absl::StrCat(
        "several processes crashed; choose one by its number: ", List(processes, crashed)));
  }
  if (named.size() == 1) return named[0];
  if (named.empty()) {
    return absl::NotFoundError(
        absl::StrCat("no process ", wanted, " in the recording; there are ", List(processes, all)));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "several processes ran ", wanted, "; choose one by its number: ", List(processes, named)));
}

}  // namespace hindsight
