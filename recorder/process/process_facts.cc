#include "recorder/process/process_facts.h"

#include <cpuid.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/unique_fd.h"

namespace hindsight {

namespace {

std::string LinkTarget(pid_t pid, const char* name) {
  char path[PATH_MAX];
  const ssize_t length =
      readlink(absl::StrCat("/proc/", pid, "/", name).c_str(), path, sizeof(path));
  return length > 0 ? std::string(path, length) : std::string();
}

std::string Contents(pid_t pid, const char* name) {
  UniqueFd fd(open(absl::StrCat("/proc/", pid, "/", name).c_str(), O_RDONLY | O_CLOEXEC));
  std::string contents;
  char buffer[4096];
  ssize_t got;
  while (fd.valid() && (got = read(fd.get(), buffer, sizeof(buffer))) > 0) {
    contents.append(buffer, got);
  }
  return contents;
}

std::vector<std::string> ZeroTerminated(std::string strings) {
  if (!strings.empty() && strings.back() == '\0') strings.pop_back();
  if (strings.empty()) return {};
  return absl::StrSplit(strings, '\0');
}

// The fields of /proc/PID/stat from the third on, after a space; empty if the process is gone.
std::string StatAfterName(pid_t pid) {
  const std::string contents = Contents(pid, "stat");
  // The second field is the program's name in parentheses, with whatever it has.
  const size_t name_end = contents.rfind(')');
  return name_end == contents.npos ? "" : contents.substr(name_end + 1);
}

}  // namespace

std::string ExecutablePath(pid_t pid) { return LinkTarget(pid, "exe"); }

std::vector<pid_t> ThreadsOf(pid_t process) {
  std::vector<pid_t> threads;
  DIR* directory = opendir(absl::StrCat("/proc/", process, "/task").c_str());
  if (directory == nullptr) return threads;
  while (const dirent* entry = readdir(directory)) {
    if (entry->d_name[0] != '.') threads.push_back(std::atoi(entry->d_name));
  }
  closedir(directory);
  return threads;
}

std::string WorkingDirectory(pid_t pid) { return LinkTarget(pid, "cwd"); }

pid_t ProcessOf(pid_t thread) { return static_cast<pid_t>(StatusNumber(thread, "Tgid:")); }

int64_t StatusNumber(pid_t pid, absl::string_view field) {
  const std::string status = Contents(pid, "status");
  for (absl::string_view line : absl::StrSplit(status, '\n')) {
    int64_t number;
    if (!absl::ConsumePrefix(&line, field)) continue;
    return absl::SimpleAtoi(line, &number) ? number : 0;  // passes over blanks
  }
  return 0;
}

std::vector<std::string> CommandLine(pid_t pid) { return ZeroTerminated(Contents(pid, "cmdline")); }

std::vector<std::string> Environment(pid_t pid) { return ZeroTerminated(Contents(pid, "environ")); }

bool HasMemory(pid_t pid) {
  constexpr size_t kSize = 22;  // vsize
  const std::vector<uint64_t> fields = StatFields(pid);
  return fields.size() > kSize && fields[kSize] != 0;
}

std::vector<uint64_t> AuxiliaryVector(pid_t pid) {
  std::vector<uint64_t> words;
  UniqueFd fd(open(absl::StrCat("/proc/", pid, "/auxv").c_str(), O_RDONLY | O_CLOEXEC));
  uint64_t word;
  while (fd.valid() && read(fd.get(), &word, sizeof(word)) == sizeof(word)) words.push_back(word);
  return words;
}

char TaskState(pid_t task) {
  const std::string rest = StatAfterName(task);
  return rest.size() > 1 ? rest[1] : '\0';
}

std::vector<uint64_t> StatFields(pid_t pid) {
  std::vector<uint64_t> fields = {static_cast<uint64_t>(pid), 0};
  const std::string rest = StatAfterName(pid);
  if (rest.empty()) return {};
  for (const absl::string_view word : absl::StrSplit(rest, ' ', absl::SkipEmpty())) {
    uint64_t number;
    fields.push_back(absl::SimpleAtoi(word, &number) ? number : 0);
  }
  return fields;
}

bool SharesMemory(pid_t a, pid_t b, bool otherwise) {
  const long result = syscall(SYS_kcmp, a, b, KCMP_VM, 0, 0);
  return result < 0 ? otherwise : result == 0;
}

std::string CpuBrand() {
  // Leaves 0x80000002 to 4 hold 16 characters each.
  char brand[49] = {};
  for (unsigned leaf = 0; leaf < 3; ++leaf) {
    unsigned words[4];
    if (!__get_cpuid(0x80000002 + leaf, &words[0], &words[1], &words[2], &words[3])) return "";
    std::memcpy(brand + 16 * leaf, words, sizeof(words));
  }
  return std::string(absl::StripAsciiWhitespace(brand));
}

}  // namespace hindsight
