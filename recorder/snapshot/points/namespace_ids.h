// Ids of processes and threads as they know themselves, in a namespace of their own perhaps.

#ifndef HINDSIGHT_RECORDER_SNAPSHOT_POINTS_NAMESPACE_IDS_H_
#define HINDSIGHT_RECORDER_SNAPSHOT_POINTS_NAMESPACE_IDS_H_

#include <sys/types.h>

namespace hindsight {

// What getpid() returns in `process`; `process` itself where /proc does not say.
pid_t NamespaceId(pid_t process);

// The thread of `process` in which gettid() returns `thread`; 0: there is none.
pid_t ThreadOfNamespaceId(pid_t process, pid_t thread);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SNAPSHOT_POINTS_NAMESPACE_IDS_H_
