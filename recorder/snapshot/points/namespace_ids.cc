#include "recorder/snapshot/points/namespace_ids.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace hindsight {
namespace {

// The innermost id in a status file's line "NSpid:"; 0: no such file or line.
pid_t InnermostId(const std::string& status_path) {
  std::ifstream status(status_path);
  for (std::string line; std::getline(status, line);) {
    if (!absl::StartsWith(line, "NSpid:")) continue;
    const std::vector<std::string> ids =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    pid_t id = 0;
    return absl::SimpleAtoi(ids.back(), &id) ? id : 0;
  }
  return 0;
}

}  // namespace

pid_t NamespaceId(pid_t process) {
  const pid_t id = InnermostId(absl::StrCat("/proc/", process, "/status"));
  return id != 0 ? id : process;
}

pid_t ThreadOfNamespaceId(pid_t process, pid_t thread) {
  if (process <= 0 || thread <= 0) return 0;
  const std::string tasks = absl::StrCat("/proc/", process, "/task");
  // Where the program has no namespace of its own, the id is the name of the directory.
  if (InnermostId(absl::StrCat(tasks, "/", thread, "/status")) == thread) return thread;
  std::error_code error;
  for (std::filesystem::directory_iterator task(tasks, error), end; !error && task != end;
       task.increment(error)) {
    pid_t id = 0;
    if (InnermostId(task->path() / "status") == thread &&
        absl::SimpleAtoi(task->path().filename().string(), &id)) {
      return id;
    }
  }
  return 0;
}

}  // namespace hindsight
