#include "server/target/stop_notes.h"

#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/syscall_text.h"
#include "keyframes/state/place_text.h"

namespace hindsight {
namespace {

std::string ExitText(const ExitStatus& status) {
  if (status.exited()) return absl::StrCat("exited with status ", status.code());
  return absl::StrCat("was killed by signal ", status.signal(), " (", strsignal(status.signal()),
                      ")");
}

}  // namespace

void StopNotes::Add(const RunStop& event, const RunStop& previous) {
  if (event.kind == StopKind::kEnd || event.kind == StopKind::kBegin) AddEnd(event, previous);
  AddThinned();
  if (event.kind == StopKind::kFork || event.kind == StopKind::kVfork) AddFork(event);
  for (const UnknownMemory& span : event.unknown) AddUnknown(span);
  if (event.kind == StopKind::kSyscallEntry || event.kind == StopKind::kSyscallReturn) {
    AddSyscall(event);
  }
}

std::string StopNotes::Take() { return std::exchange(text_, ""); }

// A step ends where its thread does, even if other threads go on.
void StopNotes::AddEnd(const RunStop& event, const RunStop& previous) {
  if (event.kind == previous.kind && event.thread == previous.thread) return;
  const bool begin = event.kind == StopKind::kBegin;
  if (timeline_->moment() != (begin ? 0 : timeline_->end_moment())) {
    absl::StrAppend(&text_, "hindsight: thread ", event.thread,
                    begin ? " begins here; reverse-continue goes further back\n"
                          : " ends here; continue goes on with the others\n");
    return;
  }
  if (begin) return;
  const Manifest& manifest = trace_->manifest();
  if (timeline_->process().exit_status()) {
    absl::StrAppend(&text_, "hindsight: here the program ",
                    ExitText(*timeline_->process().exit_status()), "\n");
  } else {
    absl::StrAppend(&text_, "hindsight: the recording ends here",
                    manifest.end_reason.empty() ? "" : ": ", manifest.end_reason, "\n");
  }
}

// Said where such a part is entered.
void StopNotes::AddThinned() {
  const std::string text = ThinnedText(timeline_->process(), timeline_->moment());
  const bool was_thinned = std::exchange(in_thinned_, !text.empty());
  if (!was_thinned && in_thinned_) absl::StrAppend(&text_, "hindsight: ", text, "\n");
}

void StopNotes::AddFork(const RunStop& event) {
  if (std::exchange(fork_explained_, true)) return;
  absl::StrAppend(&text_,
                  "hindsight: a process made here has a recording of its own, if children were "
                  "recorded: `hindsight replay -p ",
                  event.child, "` shows it\n");
}

// gdb shows only the name of a caught call.
void StopNotes::AddSyscall(const RunStop& event) {
  const int32_t thread = event.thread;
  const uint64_t count = timeline_->count(thread);
  const ThreadState& state = timeline_->thread_state(thread);
  const bool entry = event.kind == StopKind::kSyscallEntry;
  const ProcessEvent* const call = entry ? state.SyscallFrom(count) : state.PreviousSyscall(count);
  if (call == nullptr || call->number != event.syscall) return;
  const auto memory = [this, thread](uint64_t address, absl::Span<uint8_t> out) {
    return timeline_->ReadMemory(thread, address, out).value_or(0);
  };
  std::optional<int64_t> result;
  if (!entry) result = call->result;
  absl::StrAppend(&text_, "hindsight: ", SyscallText(call->number, call->arguments, result, memory),
                  "\n");
}

// Writes in such a span cannot be found: the change reported may not be the last one.
void StopNotes::AddUnknown(const UnknownMemory& unknown) {
  const ProcessState& process = timeline_->process();
  const auto position = [&](uint64_t moment) {
    return ToString(process.PositionAt(unknown.thread, moment));
  };
  absl::StrAppendFormat(&text_,
                        "hindsight: memory at 0x%x was not known between %s and %s; its value may "
                        "have changed there\n",
                        unknown.address, position(unknown.from), position(unknown.to));
}

}  // namespace hindsight
