#include "base/test_seed.h"

#include <cstdio>
#include <cstdlib>

namespace hindsight {

uint32_t TestSeed() {
  const char* given = std::getenv("HINDSIGHT_SEED");
  // Bazel tells a test which of its runs this is.
  if (given == nullptr) given = std::getenv("TEST_RUN_NUMBER");
  const uint32_t seed = given != nullptr ? std::strtoul(given, nullptr, 0) : 1;
  std::printf("seed %u\n", seed);
  return seed;
}

}  // namespace hindsight
