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

}  // namespace hindsight

#endif  // HINDSIGHT_CLI_RUNNING_RING_OPTION_H_
