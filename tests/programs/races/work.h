// What the programs do between their mistakes.
#ifndef HINDSIGHT_TESTS_PROGRAMS_RACES_WORK_H_
#define HINDSIGHT_TESTS_PROGRAMS_RACES_WORK_H_

#include <stdint.h>

// Some ten instructions a round.
__attribute__((noinline)) static uint64_t work(uint64_t state, int rounds) {
  for (int i = 0; i < rounds; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    if (state & 1) state ^= state >> 29;
  }
  return state;
}

#endif  // HINDSIGHT_TESTS_PROGRAMS_RACES_WORK_H_
