// The system calls that a confined process may make.
//
// A list of what is allowed: everything else answers EPERM. It is what replaying needs - memory,
// threads, files and sockets that are open already - and nothing that starts a program, connects,
// writes a file, or reaches another process.

#ifndef HINDSIGHT_CONFINE_SECCOMP_FILTER_H_
#define HINDSIGHT_CONFINE_SECCOMP_FILTER_H_

#include <linux/filter.h>

#include <vector>

#include "absl/status/status.h"

namespace hindsight {

// The filter's program. `pid` is its process, which may send signals to itself only.
// `may_resolve`: whether something else (Landlock) restricts openat2, whose flags no filter can
// see; otherwise it answers ENOSYS.
std::vector<sock_filter> SeccompProgram(int pid, bool may_resolve);

// Applies the filter to all threads of this process, irrevocably. Requires: no_new_privs is set.
absl::Status InstallSeccompFilter(bool may_resolve);

}  // namespace hindsight

#endif  // HINDSIGHT_CONFINE_SECCOMP_FILTER_H_
