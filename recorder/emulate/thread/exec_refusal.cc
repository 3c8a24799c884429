#include "recorder/emulate/thread/exec_refusal.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/syscall.h>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "recorder/process/exec_privileges.h"

namespace hindsight {

std::string ReasonNotToExec(const CallInFlight& call, pid_t process, const ReadMemory& read) {
  const bool at = call.number() == SYS_execveat;
  if (!at && call.number() != SYS_execve) return "";
  if (MayTracePrivileged()) return "";
  const std::string path = ReadPath(call.arguments()[at ? 1 : 0], read);
  const int directory = at ? static_cast<int>(call.arguments()[0]) : AT_FDCWD;
  const int flags = at ? static_cast<int>(call.arguments()[4]) : 0;
  const std::string lost = PrivilegesLostByExec(process, directory, path, flags);
  if (lost.empty()) return "";
  return absl::StrCat("executes ", path, ", which ", lost, " and would not be if it were recorded");
}

std::string ReadPath(uint64_t address, const ReadMemory& read) {
  std::string path;
  uint8_t byte = 0;
  while (path.size() < PATH_MAX && read(address + path.size(), absl::MakeSpan(&byte, 1)) &&
         byte != 0) {
    path.push_back(static_cast<char>(byte));
  }
  return path;
}

}  // namespace hindsight
