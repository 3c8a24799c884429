#include "cli/option_values.h"

#include <cmath>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace hindsight {
namespace {

constexpr double kLargest = 1e18;

// A number that is not negative, in front of a unit, which is left in `text`.
bool ConsumeNumber(absl::string_view* text, double* number) {
  const size_t digits = text->find_first_not_of("0123456789.");
  const absl::string_view number_text = text->substr(0, digits);
  if (number_text.empty() || !absl::SimpleAtod(number_text, number)) return false;
  text->remove_prefix(number_text.size());
  return std::isfinite(*number) && *number <= kLargest;
}

}  // namespace

bool AbslParseFlag(absl::string_view text, SizeValue* value, std::string* error) {
  double number = 0;
  *error = "a size is a number of bytes, or one followed by K, M, G or T";
  if (!ConsumeNumber(&text, &number)) return false;
  std::string unit = absl::AsciiStrToUpper(text);
  for (const char* bytes : {"IB", "B"}) {
    const absl::string_view letter = absl::StripSuffix(unit, bytes);
    if (letter.size() == unit.size()) continue;
    unit = std::string(letter);
    break;
  }
  double factor = 1;
  if (!unit.empty()) {
    const size_t power = absl::string_view("KMGT").find(unit);
    if (unit.size() != 1 || power == absl::string_view::npos) return false;
    factor = std::exp2(10 * (power + 1));
  }
  if (number * factor > kLargest) return false;
  value->bytes = static_cast<uint64_t>(number * factor);
  return true;
}

std::string AbslUnparseFlag(const SizeValue& value) {
  return value.bytes == 0 ? "" : absl::StrCat(value.bytes);
}

bool AbslParseFlag(absl::string_view text, SecondsValue* value, std::string* error) {
  double number = 0;
  *error = "a time is a number of seconds, or one followed by ms, s, m or h";
  if (!ConsumeNumber(&text, &number)) return false;
  if (text == "ms") {
    number /= 1000;
  } else if (text == "m") {
    number *= 60;
  } else if (text == "h") {
    number *= 3600;
  } else if (!text.empty() && text != "s") {
    return false;
  }
  value->seconds = number;
  return true;
}

std::string AbslUnparseFlag(const SecondsValue& value) {
  return value.seconds == 0 ? "" : absl::StrCat(value.seconds, "s");
}

bool AbslParseFlag(absl::string_view text, ChildrenValue* value, std::string* error) {
  ChildrenValue parsed;
  if (text == "none") {
    parsed.policy = ChildrenValue::kNone;
  } else if (absl::ConsumePrefix(&text, "only=") && !text.empty()) {
    parsed.policy = ChildrenValue::kOnly;
    parsed.program = std::string(text);
  } else if (text != "follow") {
    *error = "follow, none or only=NAME";
    return false;
  }
  *value = std::move(parsed);
  return true;
}

std::string AbslUnparseFlag(const ChildrenValue& value) {
  switch (value.policy) {
    case ChildrenValue::kFollow:
      return "follow";
    case ChildrenValue::kNone:
      return "none";
    case ChildrenValue::kOnly:
      return absl::StrCat("only=", value.program);
  }
  return "";
}

bool AbslParseFlag(absl::string_view text, EnvironmentValue* value, std::string* error) {
  if (text != "all" && text != "none") {
    *error = "all or none";
    return false;
  }
  value->all = text == "all";
  return true;
}

std::string AbslUnparseFlag(const EnvironmentValue& value) { return value.all ? "all" : "none"; }

bool AbslParseFlag(absl::string_view text, SeedValue* value, std::string* error) {
  SeedValue parsed = {.given = true};
  uint64_t seed = 0;
  if (absl::SimpleAtoi(text, &seed)) {
    parsed.seed = seed;
  } else if (text != "random") {
    *error = "a seed is a number from 0 on, or random";
    return false;
  }
  *value = parsed;
  return true;
}

std::string AbslUnparseFlag(const SeedValue& value) {
  if (!value.given) return "";
  return value.seed.has_value() ? absl::StrCat(*value.seed) : "random";
}

bool AbslParseFlag(absl::string_view text, RunsValue* value, std::string* error) {
  RunsValue parsed = {.given = true};
  const bool number = absl::SimpleAtoi(text, &parsed.most) && parsed.most != 0;
  if (!number && text != "forever") {
    *error = "a number of runs, at least 1, or forever";
    return false;
  }
  *value = parsed;
  return true;
}

std::string AbslUnparseFlag(const RunsValue& value) {
  if (!value.given) return "";
  return value.most == 0 ? "forever" : absl::StrCat(value.most);
}

}  // namespace hindsight
