// Runs argv[1] million rounds of a little arithmetic. For everything that needs a long recording.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint32_t table[4096];
volatile uint32_t last_round;

__attribute__((noinline)) uint32_t step(uint32_t state, uint32_t round) {
  state = state * 1664525u + 1013904223u;  // in step
  table[state >> 20] += round;
  return state ^ table[round & 4095];
}

int main(int argc, char** argv) {
  const uint32_t rounds = (uint32_t)(atof(argc > 1 ? argv[1] : "1") * 1e6);
  uint32_t state = 1;
  for (uint32_t i = 0; i < rounds; i++) {
    state = step(state, i);
    if ((i & 65535) == 0) last_round = i;
  }
  printf("%u rounds: %08x\n", rounds, state);
  return 0;
}
