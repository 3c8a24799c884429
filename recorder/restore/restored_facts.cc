#include "recorder/restore/restored_facts.h"

#include <errno.h>
#include <linux/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace hindsight {
namespace {

constexpr size_t kMostAuxvWords = 64;  // of the kernel's copy

std::string ErrorText(int64_t value) { return strerror(static_cast<int>(-value)); }

class FactRestorer {
 public:
  FactRestorer(const KernelState& kernel, Remote* remote, RestoreNotes* notes)
      : kernel_(kernel), remote_(*remote), notes_(*notes) {}

  absl::Status RestoreLayout(const std::vector<uint64_t>& auxv) {
    const MemoryLayout& layout = kernel_.layout;
    if (layout.brk == 0) return absl::OkStatus();
    prctl_mm_map map = {};
    map.start_code = layout.code_start;
    map.end_code = layout.code_end;
    map.start_data = layout.data_start;
    map.end_data = layout.data_end;
    map.start_brk = layout.brk_start;
    map.brk = layout.brk;
    map.start_stack = layout.stack_start;
    map.arg_start = layout.arguments_start;
    map.arg_end = layout.arguments_end;
    map.env_start = layout.environment_start;
    map.env_end = layout.environment_end;
    map.exe_fd = ~0u;
    constexpr uint64_t kAuxvOffset = 4096;
    if (!auxv.empty() && auxv.size() <= kMostAuxvWords) {
      const auto* const bytes = reinterpret_cast<const uint8_t*>(auxv.data());
      ASSIGN_OR_RETURN(const uint64_t words,
                       remote_.Put(kAuxvOffset, {bytes, auxv.size() * sizeof(uint64_t)}));
      map.auxv = reinterpret_cast<__u64*>(words);
      map.auxv_size = static_cast<uint32_t>(auxv.size() * sizeof(uint64_t));
    }
    ASSIGN_OR_RETURN(const uint64_t at, remote_.PutValue(0, map));
    ASSIGN_OR_RETURN(const int64_t set,
                     remote_.TryCall(SYS_prctl, {PR_SET_MM, PR_SET_MM_MAP, at, sizeof(map), 0}));
    if (set != 0) {
      notes_.lost.push_back(absl::StrCat("where the heap ends (brk): ", ErrorText(set)));
    }
    return absl::OkStatus();
  }

  absl::Status RestoreDirectory() {
    if (kernel_.umask >= 0) {
      RETURN_IF_ERROR(
          remote_.Call("umask", SYS_umask, {static_cast<uint64_t>(kernel_.umask)}).status());
    }
    if (kernel_.working_directory.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const uint64_t path, remote_.PutText(0, kernel_.working_directory));
    ASSIGN_OR_RETURN(const int64_t changed, remote_.TryCall(SYS_chdir, {path}));
    if (changed != 0) {
      notes_.lost.push_back(absl::StrCat("its working directory, ", kernel_.working_directory, ": ",
                                         ErrorText(changed)));
    }
    return absl::OkStatus();
  }

  void RestoreLimits() {
    std::string missing;
    for (size_t i = 0; i < kernel_.limits.size() && i < RLIM_NLIMITS; ++i) {
      const rlimit wanted = {kernel_.limits[i].soft, kernel_.limits[i].hard};
      const auto resource = static_cast<__rlimit_resource>(i);
      if (prlimit(remote_.process(), resource, &wanted, nullptr) == 0) continue;
      rlimit present;
      if (prlimit(remote_.process(), resource, nullptr, &present) != 0) continue;
      // The soft one counts.
      const rlimit possible = {std::min(wanted.rlim_cur, present.rlim_max), present.rlim_max};
      if (prlimit(remote_.process(), resource, &possible, nullptr) != 0 ||
          possible.rlim_cur != wanted.rlim_cur) {
        absl::StrAppend(&missing, missing.empty() ? "" : ", ", i);
      }
    }
    if (!missing.empty()) {
      notes_.different.push_back(absl::StrCat("resource limits (numbers ", missing, ") are lower"));
    }
  }

  absl::Status RestorePrivileges() {
    if (!kernel_.no_new_privileges) return absl::OkStatus();
    return remote_.Call("no_new_privs", SYS_prctl, {PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0}).status();
  }

 private:
  const KernelState& kernel_;
  Remote& remote_;
  RestoreNotes& notes_;
};

}  // namespace

absl::Status RestoreFacts(const KernelState& kernel, const std::vector<uint64_t>& auxv,
                          Remote* remote, RestoreNotes* notes) {
  FactRestorer restorer(kernel, remote, notes);
  RETURN_IF_ERROR(restorer.RestoreLayout(auxv));
  RETURN_IF_ERROR(restorer.RestoreDirectory());
  restorer.RestoreLimits();
  return restorer.RestorePrivileges();
}

}  // namespace hindsight
