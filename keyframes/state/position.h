// A position in a recording as users see and type it: `SEQUENCE:STEPS`, both hexadecimal.
//
// `sequence` is the number of the last orderable event at or before the position (0: none yet),
// `steps` the states since the one that event led to. Value type.

#ifndef HINDSIGHT_KEYFRAMES_STATE_POSITION_H_
#define HINDSIGHT_KEYFRAMES_STATE_POSITION_H_

#include <compare>
#include <cstdint>
#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hindsight {

struct Position {
  uint64_t sequence = 0;
  uint64_t steps = 0;

  auto operator<=>(const Position&) const = default;
};

// "1A:3F": upper case, no leading zeros.
std::string ToString(const Position& position);
std::ostream& operator<<(std::ostream& out, const Position& position);

// Reads what ToString writes; lower case, leading zeros and a 0x before each number are accepted.
// kInvalidArgument for anything else.
absl::StatusOr<Position> ParsePosition(absl::string_view text);

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_STATE_POSITION_H_
