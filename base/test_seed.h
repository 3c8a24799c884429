// The seed of a test that makes up its inputs, and how many it tries.

#ifndef HINDSIGHT_BASE_TEST_SEED_H_
#define HINDSIGHT_BASE_TEST_SEED_H_

#include <cstdint>

namespace hindsight {

// The same in every run, so that a run that fails does so again, and printed. Others are tried by
// HINDSIGHT_SEED in the environment, or many at once by `bazel test --runs_per_test`.
uint32_t TestSeed();

// How many inputs to try where an ordinary run has `ordinary`: HINDSIGHT_ROUNDS in the environment
// is a factor, for the suites that take many minutes.
int TestRounds(int ordinary);

}  // namespace hindsight

#endif  // HINDSIGHT_BASE_TEST_SEED_H_
