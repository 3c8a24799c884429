#include "recorder/symbols/code_place.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace hindsight {
namespace {

bool ParseNumber(absl::string_view text, uint64_t* number) {
  if (absl::StartsWith(text, "0x") || absl::StartsWith(text, "0X")) {
    return absl::SimpleHexAtoi(text, number);
  }
  return absl::SimpleAtoi(text, number);
}

}  // namespace

absl::StatusOr<CodePlace> ParseCodePlace(absl::string_view text) {
  CodePlace place;
  place.text = std::string(text);
  if (text.empty()) return absl::InvalidArgumentError("the place is empty");
  if (absl::StartsWith(text, "0x") || absl::StartsWith(text, "0X")) {
    if (!ParseNumber(text, &place.offset)) {
      return absl::InvalidArgumentError(absl::StrCat(text, ": not a hexadecimal address"));
    }
    return place;
  }
  // "a.out:f", but not "ns::f".
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != ':') continue;
    if (i + 1 < text.size() && text[i + 1] == ':') {
      ++i;
      continue;
    }
    place.file = std::string(text.substr(0, i));
    text.remove_prefix(i + 1);
    if (place.file.empty()) return absl::InvalidArgumentError(place.text + ": no file before ':'");
    break;
  }
  if (!place.file.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit) &&
      absl::SimpleAtoi(text, &place.line)) {
    if (place.line == 0) return absl::InvalidArgumentError(place.text + ": lines begin at 1");
    place.source = std::exchange(place.file, "");
    return place;
  }
  const size_t plus = text.rfind('+');
  // operator+ and operator++ are functions.
  if (plus != text.npos && plus + 1 < text.size() && absl::ascii_isdigit(text[plus + 1])) {
    if (!ParseNumber(text.substr(plus + 1), &place.offset)) {
      return absl::InvalidArgumentError(absl::StrCat(place.text, ": not a number after '+'"));
    }
    text = text.substr(0, plus);
  }
  if (text.empty()) return absl::InvalidArgumentError(place.text + ": no function");
  place.function = std::string(text);
  return place;
}

}  // namespace hindsight
