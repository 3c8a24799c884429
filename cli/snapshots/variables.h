// Variables of a snapshot by the names that users give them.

#ifndef HINDSIGHT_CLI_SNAPSHOTS_VARIABLES_H_
#define HINDSIGHT_CLI_SNAPSHOTS_VARIABLES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

struct Variable {
  std::string name;
  uint64_t address = 0;
  uint64_t size_bytes = 0;
};

// `text`: the name of a variable with a symbol, in the program or, if that has none, a library; or
// ADDRESS,SIZE. kNotFound, kInvalidArgument: a line for the user.
absl::StatusOr<Variable> FindVariable(const TraceReader& trace, const FullKeyframe& keyframe,
                                      absl::string_view text);

// The bytes of a variable of `size_bytes`: from a number (also negative, or 0x...), of one of 4 or
// 8 bytes also with a point, or "hex:" and its bytes. kInvalidArgument: a line for the user.
absl::StatusOr<std::vector<uint8_t>> ParseBytes(absl::string_view text, uint64_t size_bytes);

// "2a000000", shortened.
std::string BytesText(absl::Span<const uint8_t> bytes);

}  // namespace hindsight

#endif  // HINDSIGHT_CLI_SNAPSHOTS_VARIABLES_H_
