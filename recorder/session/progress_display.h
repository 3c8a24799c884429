// When a recording's progress is shown and when it is erased: never while the program uses the
// terminal that it is shown on.
//
// Not copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_SESSION_PROGRESS_DISPLAY_H_
#define HINDSIGHT_RECORDER_SESSION_PROGRESS_DISPLAY_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "recorder/session/options.h"
#include "recorder/syscalls/terminal_use.h"

namespace hindsight {

class ProgressDisplay {
 public:
  using Clock = std::chrono::steady_clock;

  // `options`, borrowed, has the callbacks; `terminal` is the descriptor of the terminal.
  ProgressDisplay(const RecordOptions& options, int terminal);
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  // Shows what `progress` says, at the beginning and then each quarter of a second, unless the
  // program uses the terminal.
  void Tick(Clock::time_point now, const std::function<RecordProgress()>& progress);

  // `thread` is about to make a system call, or it has returned: what is shown is erased before the
  // program uses the terminal.
  void BeforeCall(pid_t thread, int64_t number, const uint64_t* arguments, const ReadMemory& read);
  void AfterCall(pid_t thread, int64_t number, const uint64_t* arguments, int64_t result,
                 const ReadMemory& read);
  // A task runs from now on that is not recorded, and may use the terminal.
  void NoteUnrecorded();
  bool at_line_start() const { return terminal_use_.at_line_start(); }

 private:
  const RecordOptions& options_;
  TerminalUse terminal_use_;
  std::optional<Clock::time_point> last_;  // when the last one was due
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SESSION_PROGRESS_DISPLAY_H_
