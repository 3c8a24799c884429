// Bodies that attract each other, all pairs; a step is one step of time. The places of the last
// steps are kept.
#include <math.h>

#include "bench/parallel/kernel.h"

enum { kBodyCount = 4096, kKept = 36 };

struct place {
  double x, y, z;
};

static struct place *places, *speeds, (*kept)[kBodyCount];

static void set_up(int threads, long steps) {
  (void)threads, (void)steps;
  places = memory(kBodyCount * sizeof(*places));
  speeds = memory(kBodyCount * sizeof(*speeds));
  kept = memory(kKept * sizeof(*kept));
  for (uint64_t i = 0; i < kBodyCount; i++) {
    places[i] = (struct place){fraction(3 * i), fraction(3 * i + 1), fraction(3 * i + 2)};
  }
  for (uint64_t i = 0; i < kKept * kBodyCount * 3; i++) (&kept[0][0].x)[i] = fraction(i);
}

static void attract(struct place* speed, const struct place* at) {
  struct place pull = {0, 0, 0};
  for (int i = 0; i < kBodyCount; i++) {
    const double x = places[i].x - at->x, y = places[i].y - at->y, z = places[i].z - at->z;
    const double square = x * x + y * y + z * z + 1e-4;
    const double strength = 1 / (square * sqrt(square));
    pull.x += x * strength, pull.y += y * strength, pull.z += z * strength;
  }
  const double scale = 1e-6 / kBodyCount;
  speed->x += pull.x * scale, speed->y += pull.y * scale, speed->z += pull.z * scale;
}

static void step(int thread, int threads, long step) {
  const size_t first = share(kBodyCount, thread, threads);
  const size_t end = share(kBodyCount, thread + 1, threads);
  for (size_t i = first; i < end; i++) attract(&speeds[i], &places[i]);
  meet();
  for (size_t i = first; i < end; i++) {
    kept[step % kKept][i] = places[i];
    places[i].x += speeds[i].x, places[i].y += speeds[i].y, places[i].z += speeds[i].z;
  }
}

static uint64_t sum(void) {
  return sum_of(places, kBodyCount * sizeof(*places)) + sum_of(kept, kKept * sizeof(*kept));
}

const struct kernel kBodies = {"bodies", "n-body, all pairs, 4 MB", set_up, step, sum};
