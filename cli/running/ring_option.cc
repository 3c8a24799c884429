#include "cli/running/ring_option.h"

#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"

namespace hindsight {
namespace {

constexpr double kLargest = 1e15;
constexpr uint64_t kLeastBytes = uint64_t{16} << 20;
constexpr double kLeastNs = 1e8;

constexpr std::array<std::pair<absl::string_view, double>, 8> kTimes = {{{"ms", 1e6},
                                                                         {"s", 1e9},
                                                                         {"sec", 1e9},
                                                                         {"min", 60e9},
                                                                         {"h", 3600e9},
                                                                         {"d", 86400e9},
                                                                         {"hours", 3600e9},
                                                                         {"days", 86400e9}}};

// 0: not a unit of bytes. A small m could be minutes.
double BytesIn(absl::string_view unit) {
  if (unit.size() > 1 && (unit.substr(1) == "B" || unit.substr(1) == "iB"))
    unit = unit.substr(0, 1);
  if (unit == "k" || unit == "g" || unit == "t") return BytesIn(absl::AsciiStrToUpper(unit));
  const size_t power = absl::string_view("KMGT").find(unit);
  return unit.size() == 1 && power != absl::string_view::npos ? std::exp2(10 * (power + 1)) : 0;
}

}  // namespace

bool AbslParseFlag(absl::string_view text, RingValue* value, std::string* error) {
  RingLimits limits = {.text = std::string(text)};
  const size_t digits = text.find_first_not_of("0123456789.");
  const absl::string_view number_text = text.substr(0, digits);
  const absl::string_view unit =
      digits == absl::string_view::npos ? "" : absl::StripAsciiWhitespace(text.substr(digits));
  double number = 0;
  *error =
      "a ring keeps a size (500M, 2G; at least 16M), a time (30s, 10min, 2h; at least 100ms) or "
      "a number of full keyframes (20)";
  if (!absl::SimpleAtod(number_text, &number) || number <= 0 || number > kLargest) return false;
  if (unit.empty() || unit == "snapshots" || unit == "keyframes") {
    if (number != std::floor(number)) return false;
    limits.keyframes = static_cast<uint64_t>(number);
  } else if (const double bytes = BytesIn(unit); bytes != 0) {
    if (number * bytes > kLargest * 1000) return false;
    limits.bytes = static_cast<uint64_t>(number * bytes);
    if (limits.bytes < kLeastBytes) return false;
  } else {
    double ns = 0;
    for (const auto& [name, length] : kTimes) {
      if (unit == name) ns = number * length;
    }
    if (ns < kLeastNs || ns > 1e18) return false;
    limits.ns = static_cast<uint64_t>(ns);
  }
  value->limits = std::move(limits);
  return true;
}

std::string AbslUnparseFlag(const RingValue& value) { return value.limits.text; }

bool AbslParseFlag(absl::string_view text, RingPoolValue* value, std::string* error) {
  *error = "a ring has one pool for the \"process\" or one for each \"thread\"";
  if (text != "process" && text != "thread") return false;
  *value = {.given = true, .by_thread = text == "thread"};
  return true;
}

std::string AbslUnparseFlag(const RingPoolValue& value) {
  return value.by_thread ? "thread" : "process";
}

std::string CheckRingPool(const RingValue& ring, const RingPoolValue& pool) {
  if (pool.given && !ring.limits.any()) return "--ring-pool is of a --ring";
  if (pool.by_thread && ring.limits.bytes == 0) {
    return "--ring-pool=thread divides a size: a time or a number of full keyframes is the same "
           "for every thread";
  }
  return "";
}

RingLimits LimitsOf(const RingValue& ring, const RingPoolValue& pool) {
  RingLimits limits = ring.limits;
  limits.by_thread = pool.by_thread;
  if (pool.by_thread) limits.text += " by threads";
  return limits;
}

}  // namespace hindsight
