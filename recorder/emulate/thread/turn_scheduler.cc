#include "recorder/emulate/thread/turn_scheduler.h"

#include <algorithm>
#include <iterator>

namespace hindsight {
namespace {

// A turn whose time is over ends within so many instructions: longer than nearly all blocks.
constexpr uint64_t kTail = 256;

// With chaos. The longest turn of a phase is a power of two, from a window of few instructions ...
constexpr int kShortestLog2 = 2;
// ... to a part of what was executed before, at least so much.
constexpr uint64_t kPartExecuted = 128;
constexpr uint64_t kLongestAtFirst = 256;
// What a turn costs is the switch, some 0.1 ms: more instructions than this are longer than that.
constexpr uint64_t kLongest = 131'072;
constexpr uint64_t kMostTurnsOfPhase = 512;
constexpr uint64_t kLeastTurnsOfPhase = 8;

constexpr uint32_t kDelaysPercent[] = {0, 10, 40};
constexpr uint32_t kAtCallsPercent[] = {0, 5, 25, 50};
constexpr uint32_t kAtPlacesPercent[] = {10, 40, 80};

// PCT lowers a priority at a few places of the whole run; a phase has many turns.
constexpr uint32_t kNewPriorityPercent = 10;

// A thread is held back for up to as long as all has taken so far: the others may come to an end.
// A thread that spins must not wait for it for long, whether or not it yields.
constexpr uint64_t kLeastHold = 4096, kMostHold = 4'194'304;
constexpr uint64_t kMostTurnsHeld = 2048;

// Where it is held until others have passed some places: more than one operation on what they
// share has few of, less than a loop of operations has.
constexpr uint64_t kMostPlacesHeld = 64;
constexpr uint32_t kHeldByPlacesPercent = 50;
constexpr uint64_t kNever = ~uint64_t{0};

// What a locked instruction protects is near it, and what it should have protected; what a write
// was computed from, and what belongs to it, is near that.
constexpr uint64_t kFarthestFromPlace = 64;

// Signals arrive when the recorder looks, at ends of turns; the handler runs anywhere after that.
constexpr uint64_t kMostSignalDelay = 16'384;

int Log2(uint64_t value) { return 63 - __builtin_clzll(value); }

// Seeds that differ in a bit (1, 2, 3, ...) give streams that have nothing in common.
// Source: Steele et al., "Fast Splittable Pseudorandom Number Generators" (SplitMix64).
uint64_t Mixed(uint64_t seed) {
  seed += 0x9e3779b97f4a7c15;
  seed = (seed ^ (seed >> 30)) * 0xbf58476d1ce4e5b9;
  seed = (seed ^ (seed >> 27)) * 0x94d049bb133111eb;
  return seed ^ (seed >> 31);
}

}  // namespace

TurnScheduler::TurnScheduler(uint64_t seed, bool chaos)
    : seed_(seed), chaos_(chaos), random_(Mixed(seed)) {}

uint64_t TurnScheduler::PowerOfTwo(int low, int high) {
  return uint64_t{1} << (low + Below(std::max(high, low) - low + 1));
}

uint64_t TurnScheduler::AnyMagnitude(uint64_t most) {
  const uint64_t up_to = PowerOfTwo(0, Log2(most) + 1);
  return std::min(most, 1 + Below(up_to));
}

uint64_t TurnScheduler::TurnLength(uint64_t most) {
  if (chaos_) return 1 + Below(std::min(most, phase_.longest));
  return most - Below(most / 2 + 1);
}

uint64_t TurnScheduler::Tail() { return Below(kTail); }

void TurnScheduler::BeginPhase() {
  const uint64_t longest = std::clamp(executed_ / kPartExecuted, kLongestAtFirst, kLongest);
  phase_.longest = PowerOfTwo(kShortestLog2, Log2(longest));
  phase_.turns_left = kLeastTurnsOfPhase * AnyMagnitude(kMostTurnsOfPhase / kLeastTurnsOfPhase);
  phase_.by_priority = Percent(50);
  phase_.delays_percent = kDelaysPercent[Below(std::size(kDelaysPercent))];
  phase_.at_calls_percent = kAtCallsPercent[Below(std::size(kAtCallsPercent))];
  phase_.at_places_percent = kAtPlacesPercent[Below(std::size(kAtPlacesPercent))];
  // Threads that have ended go; a delay outlasts the phase.
  std::erase_if(threads_, [this](const auto& entry) { return !IsHeld(entry.second); });
  for (auto& [id, thread] : threads_) thread.priority = random_();
}

TurnScheduler::Thread& TurnScheduler::StateOf(pid_t thread) {
  const auto [it, is_new] = threads_.try_emplace(thread);
  if (is_new) it->second.priority = random_();
  return it->second;
}

void TurnScheduler::HoldBack(pid_t thread) {
  const uint64_t most = std::clamp(executed_, kLeastHold, kMostHold);
  const bool by_places = Percent(kHeldByPlacesPercent);
  Thread& held = StateOf(thread);
  held.held_until = executed_ + (by_places ? most : AnyMagnitude(most));
  held.held_until_turn = turns_ + kMostTurnsHeld;
  held.held_until_place = by_places ? places_ + AnyMagnitude(kMostPlacesHeld) : kNever;
}

// Among those that are not held back. If all are, the one that would be for the shortest time: a
// long delay outlasts short ones of others.
size_t TurnScheduler::ChooseFrom(absl::Span<const pid_t> ready) {
  size_t chosen = 0, free = 0;
  for (size_t i = 0; i < ready.size(); ++i) {
    const Thread thread = StateOf(ready[i]);
    const Thread best = StateOf(ready[chosen]);
    if (IsHeld(thread)) {
      if (free == 0 && thread.held_until < best.held_until) chosen = i;
      continue;
    }
    ++free;
    const bool better = phase_.by_priority ? thread.priority > best.priority : Below(free) == 0;
    if (free == 1 || better) chosen = i;
  }
  return chosen;
}

size_t TurnScheduler::Choose(absl::Span<const pid_t> ready) {
  if (phase_.turns_left == 0) BeginPhase();
  --phase_.turns_left;
  ++turns_;
  if (Percent(phase_.delays_percent)) HoldBack(last_);
  const size_t chosen = ChooseFrom(ready);
  // No thread starves for a whole phase because another one spins.
  if (phase_.by_priority && Percent(kNewPriorityPercent)) {
    StateOf(ready[chosen]).priority = random_();
  }
  last_ = ready[chosen];
  return chosen;
}

bool TurnScheduler::EndsAtCall(pid_t thread) {
  if (!Percent(phase_.at_calls_percent)) return false;
  HoldBack(thread);
  return true;
}

// The place among the next ones that a thread which is held back waits for.
std::optional<size_t> TurnScheduler::AwaitedPlace(pid_t thread, size_t places) {
  uint64_t first = places_ + places + 1;
  for (const auto& [id, other] : threads_) {
    if (id != thread && IsHeld(other)) first = std::min(first, other.held_until_place);
  }
  if (first > places_ + places) return std::nullopt;
  return first - places_ - 1;
}

std::optional<size_t> TurnScheduler::EndsAtPlace(pid_t thread, size_t places) {
  if (places == 0) return std::nullopt;
  std::optional<size_t> place = AwaitedPlace(thread, places);
  if (!place.has_value() && Percent(phase_.at_places_percent)) place = Below(places);
  // Those after it are still to come.
  places_ += place.has_value() ? *place + 1 : places;
  if (place.has_value()) HoldBack(thread);
  return place;
}

int64_t TurnScheduler::DistanceFromPlace() {
  const auto distance = static_cast<int64_t>(AnyMagnitude(kFarthestFromPlace));
  return Percent(50) ? distance - 1 : -distance;
}

uint64_t TurnScheduler::SignalDelay() { return AnyMagnitude(kMostSignalDelay); }

}  // namespace hindsight
