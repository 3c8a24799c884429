#include "recorder/emulate/thread/tracee_stops.h"

#include <sched.h>

#include <chrono>
#include <utility>

#include "recorder/ptrace/thread_stop.h"

namespace hindsight {
namespace {

constexpr std::chrono::milliseconds kStopTimeout(5000);

// Polls for a call's end before looking whether the thread sleeps: most calls take less.
constexpr int kPollsBeforeLook = 40;

// Looks after which a thread that waits for a disk, or a vfork, counts as asleep.
constexpr int kPatience = 4;

// Gone counts as well: the end of a first thread shows only when all others have ended.
bool Sleeps(const std::optional<SchedulingNote>& note, int looks) {
  if (!note.has_value()) return true;
  return note->state == 'S' || note->state == 'Z' || note->state == 'X' ||
         (note->state == 'D' && looks >= kPatience);
}

}  // namespace

std::optional<TraceeStop> TraceeStops::TakeReported() {
  if (!reported_.has_value()) return std::nullopt;
  listening_ = false;
  return tracee_->Interpret(*std::exchange(reported_, std::nullopt));
}

void TraceeStops::Listen() {
  tracee_->Listen();
  listening_ = true;
}

std::optional<TraceeStop> TraceeStops::Await(absl::FunctionRef<bool()> keep_waiting,
                                             absl::FunctionRef<void()> on_tick) {
  if (std::optional<TraceeStop> stop = TakeReported()) return stop;
  for (int looks = 0; !listening_ && keep_waiting(); ++looks) {
    for (int i = 0; i < kPollsBeforeLook; ++i) {
      if (std::optional<TraceeStop> stop = tracee_->Poll()) return stop;
      sched_yield();
    }
    if (Sleeps(scheduling_->Read(), looks)) break;
    on_tick();
  }
  return std::nullopt;
}

TraceeStop TraceeStops::ResumeAndWait(ResumeHow how, int signal,
                                      const std::function<void()>& on_tick) {
  tracee_->Resume(how, signal);
  return tracee_->Wait(on_tick);
}

bool TraceeStops::StopInCall() {
  tracee_->Unpark();
  if (const std::optional<TraceeStop> stop = TakeReported()) {
    if (stop->kind == TraceeStopKind::kExited) return false;
    if (stop->kind != TraceeStopKind::kSignal) return true;
    ContinueToStop(tracee_->thread(), stop->signal);
  } else {
    tracee_->Interrupt();
  }
  return WaitForSeizedStop(tracee_->thread(), kStopTimeout).kind != SeizedStop::Kind::kGone;
}

}  // namespace hindsight
