#include "recorder/translate/agent/chaos.h"

#include <sys/syscall.h>
#include <time.h>

#include "recorder/translate/agent/boot.h"
#include "recorder/translate/base/layout.h"
#include "recorder/translate/base/system.h"

namespace hindsight::agent {
namespace {

struct Mood {
  uint64_t random;      // 0: it has none yet
  uint64_t due;         // count at which the thread is looked at
  uint32_t looks_left;  // until the mood changes
  uint32_t rarity;      // it pauses at one look of 2 to the power of this
  uint32_t distance;    // looks are 2 to the power of this instructions apart, on average
};
Mood moods[kLastThread + 1];

// xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled").
uint64_t Next(Mood* mood) {
  mood->random ^= mood->random >> 12;
  mood->random ^= mood->random << 25;
  mood->random ^= mood->random >> 27;
  return mood->random * 0x2545f4914f6cdd1d >> 16;
}

// Powers of two, so that short and long are as frequent.
void Change(Mood* mood) {
  constexpr uint32_t kRarities[] = {0, 1, 3, 6, 10, 10, 10, 10};
  mood->looks_left = 1u << (3 + Next(mood) % 8);
  mood->rarity = kRarities[Next(mood) % 8];
  mood->distance = 6 + static_cast<uint32_t>(Next(mood) % 14);
}

void Pause(Mood* mood) {
  const uint64_t kind = Next(mood) % 8;
  if (kind < 3) {
    Call(SYS_sched_yield);
    return;
  }
  const uint64_t power = kind < 7 ? 10 + Next(mood) % 8 : 18 + Next(mood) % 4;
  const timespec time = {0, static_cast<long>(uint64_t{1} << power)};  // at most 2 ms
  Call(SYS_nanosleep, AddressOf(&time));
}

}  // namespace

void MayPause(Thread* thread) {
  const uint64_t seed = Boot().chaos_seed;
  if (seed == 0) return;
  Mood* mood = &moods[thread->number];
  if (mood->random == 0) mood->random = (seed + thread->number) * 0x9e3779b97f4a7c15 | 1;
  if (mood->looks_left-- == 0) Change(mood);
  if (thread->count + kLargestBlock >= mood->due) {
    mood->due = thread->count + 2 * kLargestBlock + Next(mood) % (uint64_t{2} << mood->distance);
  }
  if ((Next(mood) & ((uint64_t{1} << mood->rarity) - 1)) == 0) Pause(mood);
}

uint64_t InstructionsUntilPause(const Thread& thread) {
  const Mood& mood = moods[thread.number];
  if (Boot().chaos_seed == 0) return ~uint64_t{0};
  const uint64_t least = thread.count + 2 * kLargestBlock;
  return (mood.due > least ? mood.due : least) - thread.count;
}

}  // namespace hindsight::agent
