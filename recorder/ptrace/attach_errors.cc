#include "recorder/ptrace/attach_errors.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/unique_fd.h"
#include "recorder/process/program_lookup.h"

namespace hindsight {
namespace {

constexpr char kYamaPath[] = "/proc/sys/kernel/yama/ptrace_scope";

std::string ReadSmall(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char buffer[4096];
  const ssize_t got = fd.valid() ? read(fd.get(), buffer, sizeof(buffer)) : 0;
  return got > 0 ? std::string(buffer, got) : std::string();
}

// /proc/.../status: "Name:\tvalue" lines.
std::map<std::string, std::string> Status(const std::string& directory) {
  std::map<std::string, std::string> fields;
  for (absl::string_view line : absl::StrSplit(ReadSmall(directory + "/status"), '\n')) {
    const std::pair<absl::string_view, absl::string_view> field =
        absl::StrSplit(line, absl::MaxSplits(":\t", 1));
    fields.emplace(field.first, field.second);
  }
  return fields;
}

std::string Named(pid_t pid) {
  const std::string name = ReadSmall(absl::StrCat("/proc/", pid, "/comm"));
  if (name.empty()) return absl::StrCat("process ", pid);
  return absl::StrCat("process ", pid, " (", absl::StripSuffix(name, "\n"), ")");
}

int TracerOf(pid_t pid, pid_t thread) {
  int tracer = 0;
  const auto status = Status(absl::StrCat("/proc/", pid, "/task/", thread));
  const auto field = status.find("TracerPid");
  return field != status.end() && absl::SimpleAtoi(field->second, &tracer) ? tracer : 0;
}

bool IsKernelThread(pid_t pid) {
  constexpr uint64_t kKernelThread = 0x200000;  // PF_KTHREAD of the kernel
  constexpr int kFlags = 6;                     // counted from the end of the name
  const std::string stat = ReadSmall(absl::StrCat("/proc/", pid, "/stat"));
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return false;
  const std::vector<std::string> fields =
      absl::StrSplit(stat.substr(name_end + 1), ' ', absl::SkipEmpty());
  uint64_t flags = 0;
  return fields.size() > kFlags && absl::SimpleAtoi(fields[kFlags], &flags) &&
         (flags & kKernelThread) != 0;
}

absl::Status TracedAlready(pid_t pid, pid_t tracer) {
  return absl::FailedPreconditionError(
      absl::StrCat(Named(pid), " is traced already, by ", Named(tracer)));
}

}  // namespace

absl::Status NoSuchProcess(pid_t pid) {
  return absl::NotFoundError(absl::StrCat("there is no process ", pid));
}

absl::Status NotForThisProcessor(pid_t pid) {
  return absl::InvalidArgumentError(absl::StrCat(Named(pid), " is not run by an x86-64 program"));
}

absl::Status DoesNotStop(pid_t pid, pid_t thread) {
  return absl::FailedPreconditionError(
      absl::StrCat(Named(pid), ": thread ", thread,
                   " waits in a system call that cannot be interrupted; try again later"));
}

absl::Status CheckAttachable(pid_t pid) {
  if (pid <= 0) return NoSuchProcess(pid);
  if (pid == getpid()) return absl::InvalidArgumentError("a recorder cannot record itself");
  auto status = Status(absl::StrCat("/proc/", pid));
  if (status.empty() || status.find("Tgid") == status.end()) return NoSuchProcess(pid);
  if (status["Tgid"] != absl::StrCat(pid)) {
    return absl::InvalidArgumentError(
        absl::StrCat(pid, " is a thread of process ", status["Tgid"], "; give that"));
  }
  if (IsKernelThread(pid)) {
    return absl::InvalidArgumentError(Named(pid) + " is a thread of the kernel");
  }
  // Who is about to end has no memory any more, nor has a zombie; but for one whose first thread
  // only has ended.
  const bool zombie = status["State"][0] == 'Z';
  if (status.find("VmSize") == status.end() && !(zombie && status["Threads"] != "1")) {
    return absl::NotFoundError(Named(pid) + " has ended");
  }
  if (const int tracer = TracerOf(pid, pid); tracer != 0) return TracedAlready(pid, tracer);
  const std::string program = absl::StrCat("/proc/", pid, "/exe");
  if (access(program.c_str(), R_OK) == 0 && !IsAmd64Elf(program)) return NotForThisProcessor(pid);
  return absl::OkStatus();
}

absl::Status WhyNotSeized(pid_t pid, pid_t thread, int error) {
  if (const int tracer = TracerOf(pid, thread); tracer != 0) return TracedAlready(pid, tracer);
  std::string text = absl::StrCat("not permitted to trace ", Named(pid));
  int scope = 0;
  if (error != EPERM) {
    absl::StrAppend(&text, ": ", strerror(error));
  } else if (absl::SimpleAtoi(ReadSmall(kYamaPath), &scope) && scope > 0 && geteuid() != 0) {
    absl::StrAppend(&text, ": ", kYamaPath, " is ", scope,
                    "; run as root, or set it to 0, or start the program by `hindsight record`");
  } else if (geteuid() != 0) {
    absl::StrAppend(&text, ": it is another user's, or has privileges; run as root");
  } else {
    absl::StrAppend(&text, ": it is the system's, or this is a container without CAP_SYS_PTRACE");
  }
  return absl::PermissionDeniedError(text);
}

}  // namespace hindsight
