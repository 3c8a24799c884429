// Processes in PID namespaces below ours (pid_namespaces(7)), where they have other numbers than
// here. A number without more is one of ours.

#ifndef HINDSIGHT_RECORDER_PROCESS_PID_NAMESPACE_H_
#define HINDSIGHT_RECORDER_PROCESS_PID_NAMESPACE_H_

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace hindsight {

// Whether /proc shows the processes of our namespace, by our numbers: nothing works otherwise. If
// not, what to do.
absl::Status CheckProcIsOurs();

// The numbers of a task: ours first, the one in its own namespace last. Empty if it is gone.
std::vector<pid_t> NumbersOf(pid_t task);
// Whether `own` is the number of a task in its own namespace.
bool HasOwnNumber(pid_t task, pid_t own);
// Whether it is the first process of a process namespace below ours.
bool IsFirstOfNamespace(pid_t pid);
// Whether pids mean the same to `thread` as here.
bool IsInOurPidNamespace(pid_t thread);

// The process for which `is_it` is true; 0: there is none. Asks of `guess` first, then of what
// `parent` has made, which is cheap, then of all there are.
pid_t FindProcess(pid_t guess, pid_t parent, absl::FunctionRef<bool(pid_t)> is_it);
// The thread of `process` that has the number `own` in its own namespace; 0: there is none.
pid_t FindThread(pid_t process, pid_t own);

// The namespace of a process. It remains so when the process has ended.
class PidNamespace {
 public:
  explicit PidNamespace(pid_t process);

  // The child of `process`, which is the one that this is of, to which the call has returned
  // `result`. 0: it is gone.
  pid_t FindChild(pid_t process, pid_t result) const;

 private:
  size_t depth_ = 0;  // below ours
  std::string name_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PROCESS_PID_NAMESPACE_H_
