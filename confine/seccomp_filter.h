// The system calls that a confined process may make.
//
// A list of allowed calls: all others fail with EPERM. It has what replay needs - memory, threads,
// files and sockets that are already open - and nothing that starts a program, connects, writes a
// file, or accesses another process.

#ifndef HINDSIGHT_CONFINE_SECCOMP_FILTER_H_
#define HINDSIGHT_CONFINE_SECCOMP_FILTER_H_

#include <linux/filter.h>

#include <vector>

#include "absl/status/status.h"

namespace hindsight {

// The filter's program. `pid` is its process, which may send signals to itself only.
// `may_resolve`: whether something else (Landlock) restricts openat2, whose flags a filter cannot
// see; otherwise it fails with ENOSYS.
std::vector<sock_filter> SeccompProgram(int pid, bool may_resolve);

// Applies the filter to all threads of this process, irrevocably. Requires: no_new_privs is set.
absl::Status InstallSeccompFilter(bool may_resolve);

}  // namespace hindsight

#endif  // HINDSIGHT_CONFINE_SECCOMP_FILTER_H_
