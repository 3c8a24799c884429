// Particles in a channel that is bent into a ring. Each thread moves those of one section; one that
// leaves is handed to the section beside it. A particle has energy, in quanta, and is the faster
// the more it has; now and then the wall takes some of it. What particles and walls have together
// stays what it was.
//
// It does not, and no compiler warns of the cause. `./demo snapshots` finds the step, then the
// statement.

#include <pthread.h>

#include <cstdint>
#include <cstdio>
#include <hindsight.hpp>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

constexpr int kSections = 4;
constexpr int kSteps = 2400;
constexpr int kParticles = 500;  // in each section
constexpr int64_t kLength = 1 << 19;
constexpr uint32_t kStepClass = 1;  // of points

struct Particle {
  int64_t place;
  int64_t quanta;
};

struct Section {
  static constexpr int kRoom = 12;  // four come in a step, on average

  std::vector<Particle> particles;
  std::mutex mutex;  // of those that come
  int arrivals = 0;
  Particle arrived[kRoom] = {};
  int64_t wall = 0;     // what it has taken, in quanta
  int64_t crossed = 0;  // how many have left
};

Section sections[kSections];
int64_t total;
int step;
pthread_barrier_t together;

static void Hand(const Particle& particle, Section& to) {
  const std::lock_guard<std::mutex> lock(to.mutex);
  to.arrived[to.arrivals] = particle;
  ++to.arrivals;
}

static void Cool(Section& section) {
  int64_t taken = 0;
  for (Particle& particle : section.particles) {
    if ((particle.place ^ step) % 128 != 0 || particle.quanta <= 2) continue;
    particle.quanta -= 2;
    taken += 2;
  }
  section.wall += taken;
}

// One moves to the left, the next to the right.
static int64_t Speed(const Particle& particle) {
  return (particle.quanta % 2 == 0 ? 8 : -8) * particle.quanta;
}

static void Move(int number) {
  Section& section = sections[number];
  size_t kept = 0;
  for (Particle particle : section.particles) {
    particle.place += Speed(particle);
    if (particle.place >= 0 && particle.place < kLength) {
      section.particles[kept++] = particle;
      continue;
    }
    const bool left = particle.place < 0;
    particle.place += left ? kLength : -kLength;
    ++section.crossed;
    Hand(particle, sections[(number + (left ? kSections - 1 : 1)) % kSections]);
  }
  section.particles.resize(kept);
}

static void Receive(Section& section) {
  for (int i = 0; i < section.arrivals; ++i) section.particles.push_back(section.arrived[i]);
  section.arrivals = 0;
}

static int64_t Sum() {
  int64_t sum = 0;
  for (const Section& section : sections) {
    sum += section.wall;
    for (const Particle& particle : section.particles) sum += particle.quanta;
  }
  return sum;
}

// A point at each step; every 200th is worth most, every 20th something.
static void Report() {
  ++step;
  total = Sum();
  const int level = step % 200 == 0 ? 2 : step % 20 == 0 ? 1 : 0;
  const auto id = static_cast<uint32_t>(step);
  hs::Breakpoint({.level = level, .class_number = kStepClass, .id = id, .once = false});
}

static void Run(int number) {
  const auto all_here = [] { pthread_barrier_wait(&together); };
  for (int i = 0; i < kSteps; ++i) {
    Cool(sections[number]);
    all_here();
    Move(number);
    all_here();
    Receive(sections[number]);
    all_here();
    if (number == 0) Report();
    all_here();
  }
}

static void Fill() {
  std::mt19937 random(20);
  std::uniform_int_distribution<int64_t> place(0, kLength - 1), quanta(100, 999);
  for (Section& section : sections) {
    for (int i = 0; i < kParticles; ++i) {
      const int64_t at = place(random);
      section.particles.push_back({at, quanta(random)});
    }
  }
}

int main() {
  Fill();
  const auto before = static_cast<long long>(Sum());
  pthread_barrier_init(&together, nullptr, kSections);
  std::vector<std::thread> threads;
  for (int i = 0; i < kSections; ++i) threads.emplace_back(Run, i);
  for (std::thread& thread : threads) thread.join();
  std::printf("energy: %lld before, %lld after %d steps\n", before, static_cast<long long>(total),
              step);
}
