// What the kernel's scheduler reports about threads: notes for the trace, without influence on
// replay.

#ifndef HINDSIGHT_RECORDER_PROCESS_SCHEDULING_H_
#define HINDSIGHT_RECORDER_PROCESS_SCHEDULING_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "base/unique_fd.h"

namespace hindsight {

struct SchedulingNote {
  int cpu = 0;  // it runs on, or ran on last
  // R running, S sleeping, D waiting uninterruptibly, T stopped by a signal, t stopped for tracing,
  // Z ended.
  char state = 0;
  std::string name;  // at most 15 bytes
  bool operator==(const SchedulingNote&) const = default;
};

// nullopt if `text` is not the content of a /proc/PID/stat.
std::optional<SchedulingNote> ParseStat(absl::string_view text);

// Follows one thread. It may end at any time. Movable, not copyable.
class ThreadScheduling {
 public:
  ThreadScheduling(pid_t process, pid_t thread);

  // nullopt once the thread is gone.
  std::optional<SchedulingNote> Read() const;

 private:
  UniqueFd stat_;
};

// Whether the thread is gone, or a zombie: has ended, and not been waited for.
bool HasEnded(pid_t process, pid_t thread);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PROCESS_SCHEDULING_H_
