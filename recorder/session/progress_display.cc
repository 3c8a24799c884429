#include "recorder/session/progress_display.h"

namespace hindsight {
namespace {

constexpr std::chrono::milliseconds kInterval(250);

}  // namespace

ProgressDisplay::ProgressDisplay(const RecordOptions& options, int terminal) : options_(options) {
  if (options.progress) terminal_use_ = TerminalUse(terminal, options.at_line_start);
}

void ProgressDisplay::Tick(Clock::time_point now, const std::function<RecordProgress()>& progress) {
  if (!options_.progress || (last_.has_value() && now - *last_ < kInterval)) return;
  last_ = now;
  // Where it is not shown on a terminal, nothing disturbs it.
  if (!terminal_use_.watches() || terminal_use_.MayShow(now)) options_.progress(progress());
}

void ProgressDisplay::BeforeCall(pid_t thread, int64_t number, const uint64_t* arguments,
                                 const ReadMemory& read) {
  if (terminal_use_.BeforeCall(thread, number, arguments, read)) options_.hide_progress();
}

void ProgressDisplay::AfterCall(pid_t thread, int64_t number, const uint64_t* arguments,
                                int64_t result, const ReadMemory& read) {
  terminal_use_.AfterCall(thread, number, arguments, result, read, Clock::now());
}

void ProgressDisplay::NoteUnrecorded() {
  if (!terminal_use_.watches()) return;
  terminal_use_.NoteUnrecordedUser();
  options_.hide_progress();
}

}  // namespace hindsight
