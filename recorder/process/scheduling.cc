#include "recorder/process/scheduling.h"

#include <fcntl.h>
#include <unistd.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace hindsight {
namespace {

// Fields of /proc/PID/stat, counted from 1 as proc(5) does.
constexpr int kStateField = 3;
constexpr int kProcessorField = 39;

}  // namespace

std::optional<SchedulingNote> ParseStat(absl::string_view text) {
  // The name is anything, parentheses and spaces included; after it are only numbers.
  const size_t open = text.find('(');
  const size_t close = text.rfind(')');
  if (open == text.npos || close == text.npos || close < open) return std::nullopt;
  SchedulingNote note;
  note.name = std::string(text.substr(open + 1, close - open - 1));
  absl::string_view rest = text.substr(close + 1);
  for (int field = kStateField; field <= kProcessorField; ++field) {
    if (rest.size() < 2 || rest[0] != ' ') return std::nullopt;
    rest.remove_prefix(1);
    const absl::string_view word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(word.size());
    if (field == kStateField) {
      if (word.size() != 1) return std::nullopt;
      note.state = word[0];
    } else if (field == kProcessorField && !absl::SimpleAtoi(word, &note.cpu)) {
      return std::nullopt;
    }
  }
  return note;
}

ThreadScheduling::ThreadScheduling(pid_t process, pid_t thread)
    : stat_(open(absl::StrCat("/proc/", process, "/task/", thread, "/stat").c_str(),
                 O_RDONLY | O_CLOEXEC)) {}

std::optional<SchedulingNote> ThreadScheduling::Read() const {
  char text[1024];
  const ssize_t got = stat_.valid() ? pread(stat_.get(), text, sizeof(text), 0) : -1;
  if (got <= 0) return std::nullopt;
  return ParseStat(absl::string_view(text, got));
}

bool HasEnded(pid_t process, pid_t thread) {
  const std::optional<SchedulingNote> note = ThreadScheduling(process, thread).Read();
  return !note.has_value() || note->state == 'Z' || note->state == 'X';
}

}  // namespace hindsight
