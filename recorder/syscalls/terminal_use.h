// What recorded programs do with one terminal: whether a line of ours that is shown there would be
// mixed up with what they write or with what a user types for them.
//
//   the program ...                                        a line of ours
//   has written nothing, or whole lines, a second ago      may be shown
//   has written the beginning of a line, or just now       may not
//   has begun to read from it, or to wait for input        may not, from then on
//   has changed its modes or its foreground process group  may not, from then on
//   has made a process that is not recorded                may not, from then on
//
// The number and descriptors of a call show whether it uses the terminal. What goes there another
// way (a master side of the same terminal, io_uring) counts as unrecorded.
//
// Copyable. One thread at a time.

#ifndef HINDSIGHT_RECORDER_SYSCALLS_TERMINAL_USE_H_
#define HINDSIGHT_RECORDER_SYSCALLS_TERMINAL_USE_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>

#include "recorder/syscalls/argument_memory.h"

namespace hindsight {

class TerminalUse {
 public:
  using Clock = std::chrono::steady_clock;

  // Without a terminal: nothing may be shown.
  TerminalUse() = default;
  // `fd` is the terminal, if it is one; used only here. `at_line_start`: its cursor is at the start
  // of an empty line.
  TerminalUse(int fd, bool at_line_start);

  bool watches() const { return terminal_.has_value(); }

  // `thread` is about to make a system call. True if that may use the terminal: what is shown there
  // must have been erased before.
  bool BeforeCall(pid_t thread, int64_t number, const uint64_t* arguments, const ReadMemory& read);
  // It has returned.
  void AfterCall(pid_t thread, int64_t number, const uint64_t* arguments, int64_t result,
                 const ReadMemory& read, Clock::time_point now);
  // A process that is not recorded uses the terminal from now on, or may.
  void NoteUnrecordedUser() { in_use_ = true; }

  bool MayShow(Clock::time_point now) const;
  bool at_line_start() const { return at_line_start_ && !in_use_; }

 private:
  bool IsTerminal(pid_t thread, uint64_t fd) const;
  bool WaitsForInput(pid_t thread, int64_t number, const uint64_t* arguments,
                     const ReadMemory& read) const;

  std::optional<dev_t> terminal_;
  bool at_line_start_ = true;
  bool was_at_line_start_ = false;  // before the last write began
  bool in_use_ = false;
  std::optional<Clock::time_point> last_write_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SYSCALLS_TERMINAL_USE_H_
