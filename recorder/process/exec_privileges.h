// Whether a traced process is about to run a program whose privileges tracing would take away.
//
// The kernel ignores the set-user-ID and set-group-ID bits and the capabilities of a file that a
// traced process executes, unless its tracer has CAP_SYS_PTRACE. Such a program misbehaves, so it
// must be detached from before.

#ifndef HINDSIGHT_RECORDER_PROCESS_EXEC_PRIVILEGES_H_
#define HINDSIGHT_RECORDER_PROCESS_EXEC_PRIVILEGES_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace hindsight {

// What executing a file would give to a process that it does not have, to be read after "which":
// "is set-user-ID 0", "is given capabilities", "is run by /bin/x, which is set-group-ID 5"; empty:
// nothing, or the file cannot be examined. Of a script, its interpreter is examined.
// `directory` and `flags` as in execveat(2); for execve AT_FDCWD and 0.
// Takes nosuid mounts and the process's no_new_privs into account.
std::string PrivilegesOfExec(pid_t process, int directory, const std::string& path, int flags);

// Whether this process may trace programs without taking their privileges away (CAP_SYS_PTRACE).
bool MayTracePrivileged();

// PrivilegesOfExec, if the process would lose them because this process traces it; else empty.
std::string PrivilegesLostByExec(pid_t process, int directory, const std::string& path, int flags);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PROCESS_EXEC_PRIVILEGES_H_
