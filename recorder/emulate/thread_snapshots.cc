// ThreadEngine: where snapshots are taken.

#include "recorder/emulate/emulate_engine.h"
#include "recorder/emulate/thread_engine.h"
#include "recorder/snapshot/points/recorded_points.h"

namespace hindsight {

// Requires: the thread is synced, or in a system call, and no other has its turn.
void ThreadEngine::SnapshotIfDue() {
  if (begun()) process_->TakeSnapshotIfDue(this);
}

// The call has returned.
void ThreadEngine::SnapshotAfterCall(const CallInFlight& call) {
  if (engine_->session().options().listens && IsRecordedPoint(call.number(), call.arguments())) {
    const auto read = [this](uint64_t address, absl::Span<uint8_t> out) {
      return tracee_->memory().Read(address, out);
    };
    if (const std::optional<Point> point = RecordedPointAt(call.arguments()[1], read)) {
      process_->TakeSnapshot(this, SnapshotTriggers::OfPoint(*point));
    }
  }
  SnapshotIfDue();
  if (begun()) process_->WriteKeyframeIfWanted(this);
}

// Requires: synced.
void ThreadEngine::SnapshotBeforeSignal(int signal) {
  if (!engine_->session().triggers().IsWanted(signal)) return;
  if (cpu_->count() == 0 && thread() == engine_->session().options().signaled_thread) return;
  process_->TakeSnapshot(this, SnapshotTriggers::OfSignal(signal));
}

// If the thread is at such a place, and has not been seen there in this state.
void ThreadEngine::SnapshotAtPlace() {
  // A thread of a process that was restored there has arrived before.
  const bool restored = !engine_->session().options().traced_threads.empty();
  if (restored && cpu_->count() == 0) place_passed_ = 0;
  const auto& places = process_->image().snapshot_places();
  if (places.empty() || place_passed_ == cpu_->count()) return;
  const auto place = places.find(cpu_->pc());
  if (place == places.end()) return;
  place_passed_ = cpu_->count();
  Sync();
  process_->TakeSnapshot(this, SnapshotTriggers::OfPlace(place->second));
}

}  // namespace hindsight
