#include "cli/progress_line.h"

#include <unistd.h>

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/printable.h"

namespace hindsight {
namespace {

// Back to the first column, and erase to the end of the line.
constexpr char kRestart[] = "\r\x1b[K";

void Write(absl::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

}  // namespace

ProgressLine::ProgressLine() : on_terminal_(isatty(STDERR_FILENO) != 0) {}

void ProgressLine::Show(absl::string_view text) {
  if (!on_terminal_) return;
  Write(absl::StrCat(kRestart, "hindsight: ", Printable(text)));
  shown_ = true;
}

void ProgressLine::Clear() {
  if (shown_) Write(kRestart);
  shown_ = false;
}

void ProgressLine::Finish(absl::string_view text) {
  Clear();
  Write(absl::StrCat("hindsight: ", Printable(text), "\n"));
}

}  // namespace hindsight
