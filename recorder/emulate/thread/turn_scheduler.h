// Decides which thread goes on, and where its turn ends: by chance, from a seed.
//
// Without chaos threads take turns in their order, and only the ends of turns are random. With
// chaos the schedule looks for bugs. It does so in phases, each with habits of its own, drawn at
// its beginning:
//
//   who goes on     any thread that can, or the one with the highest of random priorities, so
//                   that the others starve (PCT: Burckhardt et al., "A Randomized Scheduler with
//                   Probabilistic Guarantees of Finding Bugs"; the chaos mode of rr)
//   turns           from a few instructions to many: one that is long beside one that is cut short
//   places          how often a turn ends before or after a system call, or near a locked
//                   instruction or a write to memory that others use
//   delays          how often a thread whose turn has ended is held back while others can run:
//                   most bugs need one that stops in the middle, and another that gets far. It is
//                   held for a number of instructions, or of places that others pass: then the
//                   last of those ends their turn, so that each stops in the middle
//
// The longest turn that a phase may draw grows with what has been scheduled, so that a short run
// is cut everywhere, and a long one gets as many turns in its second half as in each doubling
// before: the cost is a logarithm of the length.
//
// Same seed and same questions, same answers. Copyable. One thread at a time.

#ifndef HINDSIGHT_RECORDER_EMULATE_THREAD_TURN_SCHEDULER_H_
#define HINDSIGHT_RECORDER_EMULATE_THREAD_TURN_SCHEDULER_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>

#include "absl/types/span.h"

namespace hindsight {

class TurnScheduler {
 public:
  TurnScheduler(uint64_t seed, bool chaos);

  uint64_t seed() const { return seed_; }
  bool chaos() const { return chaos_; }

  // Instructions of the turn that begins, or goes on, at most `most`. Requires: `most` is not 0.
  uint64_t TurnLength(uint64_t most);
  // So many instructions were executed in a turn among others.
  void NoteExecuted(uint64_t instructions) { executed_ += instructions; }
  // Instructions more for a turn whose time is over: any of the next ones may be its last.
  uint64_t Tail();

  // With chaos only.
  // The index in `ready` (threads, not empty) of the one whose turn is next.
  size_t Choose(absl::Span<const pid_t> ready);
  // Whether the turn of `thread` ends here, before or after a system call.
  bool EndsAtCall(pid_t thread);
  // The turn of `thread` has passed so many places where threads meet: the index of the one near
  // which it is to end; nullopt if it goes on.
  std::optional<size_t> EndsAtPlace(pid_t thread, size_t places);
  // Where near it: instructions after it, or (negative) before.
  int64_t DistanceFromPlace();
  // How many instructions the delivery of a pending signal is delayed.
  uint64_t SignalDelay();

 private:
  struct Phase {
    uint64_t turns_left = 0;
    uint64_t longest = 1;            // turn, instructions
    bool by_priority = false;        // else any thread
    uint32_t delays_percent = 0;     // of turns are followed by a delay
    uint32_t at_calls_percent = 0;   // of calls end the turn
    uint32_t at_places_percent = 0;  // of turns that passed places end at one
  };
  struct Thread {
    uint64_t priority = 0;
    // Held back until so many instructions were executed, or turns begun.
    uint64_t held_until = 0, held_until_turn = 0;
    // Or until others have passed so many places.
    uint64_t held_until_place = 0;
  };

  uint64_t Below(uint64_t end) { return random_() % end; }
  uint64_t PowerOfTwo(int low, int high);
  // Between 1 and `most`; each order of magnitude is as likely as any other.
  uint64_t AnyMagnitude(uint64_t most);
  bool Percent(uint32_t percent) { return Below(100) < percent; }
  Thread& StateOf(pid_t thread);
  bool IsHeld(const Thread& thread) const {
    return thread.held_until > executed_ && thread.held_until_turn > turns_ &&
           thread.held_until_place > places_;
  }
  void HoldBack(pid_t thread);
  std::optional<size_t> AwaitedPlace(pid_t thread, size_t places);
  void BeginPhase();
  size_t ChooseFrom(absl::Span<const pid_t> ready);

  uint64_t seed_;
  bool chaos_;
  std::mt19937_64 random_;
  Phase phase_;
  pid_t last_ = 0;  // whose turn it was
  uint64_t turns_ = 0;
  uint64_t executed_ = 0;
  uint64_t places_ = 0;              // passed by all threads
  std::map<pid_t, Thread> threads_;  // in the order of their ids, which is that of their making
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_THREAD_TURN_SCHEDULER_H_
