// The seed of all random choices of a recording.

#ifndef HINDSIGHT_RECORDER_SESSION_SEED_H_
#define HINDSIGHT_RECORDER_SESSION_SEED_H_

#include <cstdint>

namespace hindsight {

// A new one, most likely not used by an earlier recording. 32 bits: a number that a user can type.
uint64_t NewSeed();

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SESSION_SEED_H_
