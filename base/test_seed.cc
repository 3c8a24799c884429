#include "base/test_seed.h"

#include <cstdio>
#include <cstdlib>

namespace hindsight {

namespace {

uint32_t FromEnvironment(const char* name, uint32_t otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::strtoul(value, nullptr, 0) : otherwise;
}

}  // namespace

uint32_t TestSeed() {
  constexpr uint32_t kPerRun = 1000;
  // Which run of several this is, as Bazel tells.
  const uint32_t run = FromEnvironment("TEST_RANDOM_SEED", 1);
  const uint32_t seed = FromEnvironment("HINDSIGHT_SEED", 1) + (run - 1) * kPerRun;
  std::printf("seed %u\n", seed);
  return seed;
}

int TestRounds(int ordinary) {
  return ordinary * static_cast<int>(FromEnvironment("HINDSIGHT_ROUNDS", 1));
}

}  // namespace hindsight
