// Nanoseconds since the recording began, from time stamps of the processor.
//
// Value type. One host thread.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_STREAM_TSC_CLOCK_H_
#define HINDSIGHT_RECORDER_TRANSLATE_STREAM_TSC_CLOCK_H_

#include <cstdint>

namespace hindsight {

// The processor's clock.
inline uint64_t ReadTsc() { return __builtin_ia32_rdtsc(); }

class TscClock {
 public:
  // At the stamp `tsc` it was `ns`.
  TscClock(uint64_t tsc, uint64_t ns) : tsc_(tsc), ns_(ns) {}

  // The same later: the rate is that since the beginning.
  void Update(uint64_t tsc, uint64_t ns) {
    if (tsc <= tsc_ || ns < ns_) return;
    ns_per_tick_ = static_cast<double>(ns - ns_) / static_cast<double>(tsc - tsc_);
  }
  // A stamp before the beginning is at the beginning.
  uint64_t NsAt(uint64_t tsc) const {
    if (tsc <= tsc_) return ns_;
    return ns_ + static_cast<uint64_t>(static_cast<double>(tsc - tsc_) * ns_per_tick_);
  }

 private:
  uint64_t tsc_;
  uint64_t ns_;
  double ns_per_tick_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_STREAM_TSC_CLOCK_H_
