// The value of --ring.

#ifndef HINDSIGHT_CLI_RUNNING_RING_OPTION_H_
#define HINDSIGHT_CLI_RUNNING_RING_OPTION_H_

#include <string>

#include "absl/strings/string_view.h"
#include "tracefmt/ring/ring_limits.h"

namespace hindsight {

// A size ("500M", "2G"), a time ("30s", "10min", "2h", "1d") or a number of full keyframes ("20").
// Not given: all is kept.
struct RingValue {
  RingLimits limits;
};
bool AbslParseFlag(absl::string_view text, RingValue* value, std::string* error);
std::string AbslUnparseFlag(const RingValue& value);

// The value of --ring-pool: "process" or "thread".
struct RingPoolValue {
  bool given = false;
  bool by_thread = false;
};
bool AbslParseFlag(absl::string_view text, RingPoolValue* value, std::string* error);
std::string AbslUnparseFlag(const RingPoolValue& value);

// Why these do not go together; empty: they do.
std::string CheckRingPool(const RingValue& ring, const RingPoolValue& pool);
// Requires: they do.
RingLimits LimitsOf(const RingValue& ring, const RingPoolValue& pool);

}  // namespace hindsight

#endif  // HINDSIGHT_CLI_RUNNING_RING_OPTION_H_
