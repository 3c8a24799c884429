// Whether a trace holds all that its manifest says was recorded.

#ifndef HINDSIGHT_KEYFRAMES_VERIFY_VERIFY_TOTALS_H_
#define HINDSIGHT_KEYFRAMES_VERIFY_VERIFY_TOTALS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

// What was read of a thread's segments.
struct ThreadContents {
  uint64_t end_count = 0;  // of the newest segment
  uint64_t records = 0;
};

// Why nothing can be said of what may be missing at the end of `trace`; empty: its totals can be
// compared.
std::string ReasonForNoTotals(const Manifest& manifest);

// kDataLoss naming the first thing that is not there. Requires: ReasonForNoTotals is empty.
absl::Status CheckTotals(const TraceReader& trace,
                         const std::map<int32_t, ThreadContents>& threads);

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_VERIFY_VERIFY_TOTALS_H_
