#include "recorder/process/signal_sets.h"

#include <signal.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace hindsight {

SignalSets SignalSetsOf(pid_t process, pid_t thread) {
  SignalSets sets;
  const std::string path = absl::StrCat("/proc/", process, "/task/", thread, "/status");
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return sets;
  char line[256];
  unsigned long long value;
  while (std::fgets(line, sizeof(line), file) != nullptr) {
    char name[8];
    if (std::sscanf(line, "%6[A-Za-z]: %llx", name, &value) != 2) continue;
    if (std::strcmp(name, "SigPnd") == 0 || std::strcmp(name, "ShdPnd") == 0) {
      sets.pending |= value;
    } else if (std::strcmp(name, "SigBlk") == 0) {
      sets.blocked = value;
    } else if (std::strcmp(name, "SigIgn") == 0) {
      sets.ignored = value;
    } else if (std::strcmp(name, "SigCgt") == 0) {
      sets.caught = value;
      sets.known = true;
    }
  }
  std::fclose(file);
  return sets;
}

bool SignalSets::only_ignored_come() const {
  const auto bit = [](int signal) { return uint64_t{1} << (signal - 1); };
  const uint64_t by_default = bit(SIGCHLD) | bit(SIGCONT) | bit(SIGURG) | bit(SIGWINCH);
  return (coming() & ~(ignored | (by_default & ~caught))) == 0;
}

std::string SignalName(int signal) {
  const char* const name = sigabbrev_np(signal);
  return name == nullptr ? absl::StrCat("signal ", signal) : absl::StrCat("SIG", name);
}

}  // namespace hindsight
