// Seeds of all that a recording leaves to chance.

#ifndef HINDSIGHT_RECORDER_SESSION_SEED_H_
#define HINDSIGHT_RECORDER_SESSION_SEED_H_

#include <cstdint>

namespace hindsight {

// One that, most likely, no earlier recording had. 32 bits: a number that a user can type.
uint64_t NewSeed();

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SESSION_SEED_H_
