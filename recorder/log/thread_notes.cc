#include "recorder/log/thread_notes.h"

#include <optional>
#include <utility>
#include <vector>

namespace hindsight {
namespace {

// Reading the thread's state from /proc costs as much as some turns take.
constexpr uint64_t kSchedulingIntervalNs = 10'000'000;

std::vector<uint64_t> Words(absl::Span<const uint64_t> words) {
  return {words.begin(), words.end()};
}

}  // namespace

std::string ThreadNotes::CurrentName() const {
  return scheduling_->Read().value_or(SchedulingNote{}).name;
}

void ThreadNotes::Start(uint64_t count, int32_t maker, bool orderable) {
  name_ = CurrentName();
  log_->Event({.kind = EventKind::kThreadStart,
               .sequence = orderable ? log_->NextSequence() : 0,
               .count = count,
               .number = maker,
               .text = name_});
}

void ThreadNotes::StartKilled() {
  log_->Event({.kind = EventKind::kThreadStart, .sequence = log_->NextSequence()});
}

void ThreadNotes::Exit(uint64_t count) {
  if (std::exchange(exit_logged_, true)) return;
  log_->Event({.kind = EventKind::kThreadExit, .count = count});
}

void ThreadNotes::Slice(uint64_t count, uint64_t now_ns, uint64_t last_slice_end_ns) {
  if (now_ns - scheduling_read_ns_ >= kSchedulingIntervalNs || scheduling_read_ns_ == 0) {
    scheduling_read_ns_ = now_ns;
    const std::optional<SchedulingNote> note = scheduling_->Read();
    const uint64_t cpu = note.has_value() ? static_cast<uint64_t>(note->cpu) : cpu_;
    if (cpu_ != kUnknownCpu && cpu != cpu_) {
      log_->Event({.kind = EventKind::kSchedule, .count = count, .arguments = {now_ns, cpu, cpu_}});
    }
    cpu_ = cpu;
  }
  log_->Event({.kind = EventKind::kSlice,
               .sequence = log_->NextSequence(),
               .count = count,
               .arguments = {now_ns, last_slice_end_ns, cpu_}});
}

void ThreadNotes::Name(uint64_t count) {
  const std::string name = CurrentName();
  if (name == std::exchange(name_, name)) return;
  log_->Event({.kind = EventKind::kThreadName, .count = count, .text = name});
}

void ThreadNotes::Gap(uint64_t count, const std::string& reason) {
  log_->Event({.kind = EventKind::kGap, .count = count, .text = reason});
}

void ThreadNotes::MemoryUnknown(uint64_t count, const std::string& why) {
  log_->Event({.kind = EventKind::kMemoryUnknown, .count = count, .text = why});
}

uint64_t ThreadNotes::SystemCall(uint64_t count, int64_t number,
                                 absl::Span<const uint64_t> arguments, int64_t result,
                                 uint64_t sequence) {
  if (sequence == 0) sequence = log_->NextSequence();
  log_->Event({.kind = EventKind::kSyscall,
               .sequence = sequence,
               .count = count + 1,
               .number = number,
               .arguments = Words(arguments),
               .result = result});
  return sequence;
}

uint64_t ThreadNotes::Exec(uint64_t count, int64_t number, absl::Span<const uint64_t> arguments,
                           const std::string& program, uint64_t sequence) {
  if (sequence == 0) sequence = log_->NextSequence();
  log_->Event({.kind = EventKind::kExec,
               .sequence = sequence,
               .count = count + 1,
               .number = number,
               .arguments = Words(arguments),
               .text = program});
  return sequence;
}

uint64_t ThreadNotes::Signal(uint64_t count, int signal, const std::string& siginfo) {
  const uint64_t sequence = log_->NextSequence();
  log_->Event({.kind = EventKind::kSignal,
               .sequence = sequence,
               .count = count + 1,
               .number = signal,
               .text = siginfo});
  return sequence;
}

void ThreadNotes::Fork(uint64_t count, int64_t number, ForkKind kind, uint64_t clone_flags,
                       pid_t process, bool recorded) {
  log_->Event({.kind = EventKind::kFork,
               .count = count,
               .number = number,
               .arguments = {static_cast<uint64_t>(kind), recorded ? 1u : 0u, clone_flags},
               .result = process});
}

}  // namespace hindsight
