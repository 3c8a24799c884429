#include "recorder/process/pid_namespace.h"

#include <dirent.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "recorder/process/process_facts.h"

namespace hindsight {
namespace {

std::string NameOf(pid_t task) {
  std::error_code error;
  return std::filesystem::read_symlink(absl::StrCat("/proc/", task, "/ns/pid"), error).string();
}

// What `process` has made and not yet collected; empty where the kernel does not tell.
std::vector<pid_t> ChildrenOf(pid_t process) {
  std::vector<pid_t> children;
  for (const pid_t thread : ThreadsOf(process)) {
    std::ifstream list(absl::StrCat("/proc/", process, "/task/", thread, "/children"));
    for (pid_t child; list >> child;) children.push_back(child);
  }
  return children;
}

std::vector<pid_t> AllProcesses() {
  std::vector<pid_t> processes;
  DIR* directory = opendir("/proc");
  if (directory == nullptr) return processes;
  while (const dirent* entry = readdir(directory)) {
    pid_t process;
    if (absl::SimpleAtoi(entry->d_name, &process)) processes.push_back(process);
  }
  closedir(directory);
  return processes;
}

}  // namespace

absl::Status CheckProcIsOurs() {
  std::error_code error;
  const std::string self = std::filesystem::read_symlink("/proc/self", error).string();
  if (self == absl::StrCat(getpid())) return absl::OkStatus();
  if (self.empty()) {
    return absl::FailedPreconditionError(
        "/proc does not show this process: mount it there (mount -t proc proc /proc)");
  }
  return absl::FailedPreconditionError(
      absl::StrCat("/proc shows the processes of another PID namespace (this one as ", self,
                   ", not ", getpid(), "): mount it anew (mount -t proc proc /proc)"));
}

std::vector<pid_t> NumbersOf(pid_t task) {
  std::ifstream status(absl::StrCat("/proc/", task, "/status"));
  bool is_there = false;
  for (std::string line; std::getline(status, line);) {
    is_there = true;
    absl::string_view rest = line;
    if (!absl::ConsumePrefix(&rest, "NSpid:")) continue;
    std::vector<pid_t> numbers;
    for (const absl::string_view word : absl::StrSplit(rest, '\t', absl::SkipWhitespace())) {
      pid_t number;
      if (absl::SimpleAtoi(word, &number)) numbers.push_back(number);
    }
    return numbers;
  }
  // A kernel without such namespaces says nothing of them.
  return is_there ? std::vector<pid_t>{task} : std::vector<pid_t>();
}

bool HasOwnNumber(pid_t task, pid_t own) {
  const std::vector<pid_t> numbers = NumbersOf(task);
  return !numbers.empty() && numbers.back() == own;
}

bool IsFirstOfNamespace(pid_t pid) {
  const std::vector<pid_t> numbers = NumbersOf(pid);
  return numbers.size() > 1 && numbers.back() == 1;
}

// Links to namespaces cannot be read of everybody.
bool IsInOurPidNamespace(pid_t thread) { return NumbersOf(thread).size() == 1; }

pid_t FindProcess(pid_t guess, pid_t parent, absl::FunctionRef<bool(pid_t)> is_it) {
  if (guess > 0 && is_it(guess)) return guess;
  for (const pid_t child : ChildrenOf(parent)) {
    if (is_it(child)) return child;
  }
  for (const pid_t process : AllProcesses()) {
    if (is_it(process)) return process;
  }
  return 0;
}

pid_t FindThread(pid_t process, pid_t own) {
  for (const pid_t thread : ThreadsOf(process)) {
    if (HasOwnNumber(thread, own)) return thread;
  }
  return 0;
}

PidNamespace::PidNamespace(pid_t process) : name_(NameOf(process)) {
  const std::vector<pid_t> numbers = NumbersOf(process);
  if (!numbers.empty()) depth_ = numbers.size() - 1;
}

pid_t PidNamespace::FindChild(pid_t process, pid_t result) const {
  if (depth_ == 0) return result;
  return FindProcess(/*guess=*/0, process, [&](pid_t candidate) {
    const std::vector<pid_t> numbers = NumbersOf(candidate);
    return numbers.size() > depth_ && numbers[depth_] == result &&
           (StatusNumber(candidate, "PPid:") == process || NameOf(candidate) == name_);
  });
}

}  // namespace hindsight
