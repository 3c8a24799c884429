#include "cli/progress_line.h"

#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/printable.h"

namespace hindsight {
namespace {

// Back to the first column, and erase to the end of the line.
constexpr char kRestart[] = "\r\x1b[K";

bool InForeground() { return tcgetpgrp(STDERR_FILENO) == getpgrp(); }

bool ShowsLines() {
  termios modes = {};
  return tcgetattr(STDERR_FILENO, &modes) == 0 && (modes.c_lflag & ICANON) != 0 &&
         (modes.c_lflag & ECHO) != 0;
}

void Write(absl::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

}  // namespace

ProgressLine::ProgressLine() : on_terminal_(isatty(STDERR_FILENO) != 0) {}

bool ProgressLine::may_show_beside_program() const {
  struct stat status = {};
  const bool piped =
      fstat(STDOUT_FILENO, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
  return on_terminal_ && !piped;
}

void ProgressLine::Show(absl::string_view text) {
  if (!on_terminal_ || !InForeground() || !ShowsLines()) return;
  Write(absl::StrCat(kRestart, "hindsight: ", Printable(text)));
  shown_ = true;
}

void ProgressLine::Clear() {
  if (shown_ && InForeground()) Write(kRestart);
  shown_ = false;
}

void ProgressLine::Finish(absl::string_view text) {
  Clear();
  Write(absl::StrCat("hindsight: ", Printable(text), "\n"));
}

}  // namespace hindsight
