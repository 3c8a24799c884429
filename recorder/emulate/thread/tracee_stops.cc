#include "recorder/emulate/thread/tracee_stops.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "recorder/ptrace/attach.h"
#include "recorder/ptrace/thread_stop.h"

namespace hindsight {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kStopTimeout(5000);

// Polls for a call's end before looking whether the thread sleeps: most calls take less.
constexpr int kPollsBeforeLook = 40;

// Looks after which a thread that waits for a disk, or a vfork, counts as asleep.
constexpr int kPatience = 4;
// If it may have acted already, there is more patience. It halves when it was in vain: what the
// thread waits for may be another recorded one. It comes back after a wait that was not.
constexpr std::chrono::nanoseconds kPatienceWithActing = std::chrono::milliseconds(250);
constexpr std::chrono::nanoseconds kLeastPatience = std::chrono::milliseconds(1);
constexpr std::chrono::microseconds kPause(100);

// Gone counts as well: the end of a first thread shows only when all others have ended.
bool Sleeps(const std::optional<SchedulingNote>& note) {
  return !note.has_value() || note->state == 'S' || note->state == 'Z' || note->state == 'X';
}

bool WaitsForDisk(const std::optional<SchedulingNote>& note) {
  return note.has_value() && note->state == 'D';
}

}  // namespace

TraceeStops::TraceeStops(Tracee* tracee, const ThreadScheduling* scheduling)
    : tracee_(tracee), scheduling_(scheduling), patience_(kPatienceWithActing) {}

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
                                             absl::FunctionRef<void()> on_tick,
                                             absl::FunctionRef<bool()> acts) {
  if (std::optional<TraceeStop> stop = TakeReported()) return stop;
  std::optional<Clock::time_point> end;  // of patience
  for (int looks = 0; !listening_ && keep_waiting(); ++looks) {
    for (int i = 0; i < kPollsBeforeLook; ++i) {
      if (std::optional<TraceeStop> stop = tracee_->Poll()) {
        if (end.has_value()) patience_ = kPatienceWithActing;
        return stop;
      }
      sched_yield();
    }
    const std::optional<SchedulingNote> note = scheduling_->Read();
    if (Sleeps(note)) break;
    if (WaitsForDisk(note) && looks >= kPatience) {
      if (!end.has_value()) {
        if (!acts()) break;
        end = Clock::now() + patience_;
      }
      if (Clock::now() >= *end) {
        patience_ = std::max(patience_ / 2, kLeastPatience);
        break;
      }
      std::this_thread::sleep_for(kPause);
    }
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
    if (stop->kind == TraceeStopKind::kSyscall) LeaveCallEntry(tracee_->thread());
    if (stop->kind != TraceeStopKind::kSignal) return true;
    ContinueToStop(tracee_->thread(), stop->signal);
  } else {
    tracee_->Interrupt();
  }
  return WaitForSeizedStop(tracee_->thread(), kStopTimeout).kind != SeizedStop::Kind::kGone;
}

}  // namespace hindsight
