#include "keyframes/state/position.h"

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace hindsight {
namespace {

// Sixteen hex digits fill a count; more would only be leading zeros, and are refused as typos.
constexpr size_t kMaxDigits = 16;

bool ParseHex(absl::string_view text, uint64_t* value) {
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
    text.remove_prefix(2);
  }
  if (text.empty() || text.size() > kMaxDigits) return false;
  for (char c : text) {
    if (!absl::ascii_isxdigit(c)) return false;
  }
  return absl::SimpleHexAtoi(text, value);
}

}  // namespace

std::string ToString(const Position& position) {
  return absl::StrFormat("%X:%X", position.sequence, position.steps);
}

std::ostream& operator<<(std::ostream& out, const Position& position) {
  return out << ToString(position);
}

absl::StatusOr<Position> ParsePosition(absl::string_view text) {
  Position position;
  const size_t colon = text.find(':');
  if (colon == absl::string_view::npos || !ParseHex(text.substr(0, colon), &position.sequence) ||
      !ParseHex(text.substr(colon + 1), &position.steps)) {
    return absl::InvalidArgumentError(
        absl::StrCat("not a position: '", text, "' (expected SEQUENCE:STEPS in hex, as in 1A:3F)"));
  }
  return position;
}

}  // namespace hindsight
