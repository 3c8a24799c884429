// How much of its newest part a recording keeps.

#ifndef HINDSIGHT_TRACEFMT_RING_RING_LIMITS_H_
#define HINDSIGHT_TRACEFMT_RING_RING_LIMITS_H_

#include <cstdint>
#include <string>

namespace hindsight {

// At most one of the first three is not 0.
struct RingLimits {
  uint64_t bytes = 0;      // on disk, of the whole recording
  uint64_t ns = 0;         // back from the present
  uint64_t keyframes = 0;  // full ones, of all processes
  bool by_thread = false;  // of `bytes`, each living thread has a share of its own
  std::string text;        // as the user gave it, for the manifest

  bool any() const { return bytes != 0 || ns != 0 || keyframes != 0; }
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_RING_RING_LIMITS_H_
