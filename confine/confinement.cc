#include "confine/confinement.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "confine/landlock.h"
#include "confine/memory_budget.h"
#include "confine/seccomp_filter.h"

namespace hindsight {
namespace {

// Keeps the capability with which root reads other users' traces, if there was one.
void DropCapabilities() {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (syscall(SYS_capget, &header, data) != 0) return;
  data[0].permitted &= 1u << CAP_DAC_READ_SEARCH;
  data[0].effective = data[0].permitted;
  data[0].inheritable = 0;
  data[1] = {};
  syscall(SYS_capset, &header, data);
}

// A core would hold the memory of the program that was recorded.
void ForbidCores() {
  const rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
}

}  // namespace

std::vector<std::string> Confine(const ConfinementOptions& options) {
  std::vector<std::string> gaps;
  const auto note = [&gaps](const absl::Status& status, const char* consequence) {
    if (!status.ok()) gaps.push_back(absl::StrCat(consequence, " (", status.message(), ")"));
  };
  absl::StatusOr<MemoryMeter> meter = MemoryMeter::Open();
  note(meter.status(), "its memory is not limited");
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    gaps.push_back("it could gain privileges, and nothing else can be confined");
    return gaps;
  }
  ForbidCores();
  DropCapabilities();
  const absl::Status files = RestrictFiles(options.readable_directories);
  note(files, "it could read any file of this user");
  note(InstallSeccompFilter(/*may_resolve=*/files.ok()),
       "it could start programs, connect, and write files");
  if (meter.ok()) {
    const uint64_t limit =
        options.memory_limit_bytes != 0 ? options.memory_limit_bytes : DefaultMemoryLimit();
    WatchMemory(*std::move(meter), limit, options.out_of_memory);
  }
  return gaps;
}

}  // namespace hindsight
