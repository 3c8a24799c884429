// The seed of a test that makes up its inputs.

#ifndef HINDSIGHT_BASE_TEST_SEED_H_
#define HINDSIGHT_BASE_TEST_SEED_H_

#include <cstdint>

namespace hindsight {

// The same in every run, so that a run that fails does so again, and printed. Others are tried by
// HINDSIGHT_SEED in the environment, or many at once by `bazel test --runs_per_test`.
uint32_t TestSeed();

}  // namespace hindsight

#endif  // HINDSIGHT_BASE_TEST_SEED_H_
