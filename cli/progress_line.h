// A line on stderr that is rewritten in place while something long runs, if stderr is a terminal.
//
// It is not written while another process group has the terminal (after Ctrl-Z and `bg`), nor while
// the terminal is not in line mode: in an editor or pager, or while a password is typed.
//
// Not copyable. One thread.

#ifndef HINDSIGHT_CLI_PROGRESS_LINE_H_
#define HINDSIGHT_CLI_PROGRESS_LINE_H_

#include "absl/strings/string_view.h"

namespace hindsight {

class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine() { Clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  bool on_terminal() const { return on_terminal_; }
  // Whether it may be shown while a program runs that shares standard output with this one: not if
  // that is a pipe, whose reader may show the output on the same terminal.
  bool may_show_beside_program() const;
  // Requires: the cursor is at the start of an empty line, or the line is shown.
  void Show(absl::string_view text);
  void Clear();
  // Prints `text` as a line that stays, also where stderr is not a terminal.
  void Finish(absl::string_view text);

 private:
  bool on_terminal_;
  bool shown_ = false;
};

}  // namespace hindsight

#endif  // HINDSIGHT_CLI_PROGRESS_LINE_H_
