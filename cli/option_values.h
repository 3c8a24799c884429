// Values of options that Abseil's flags have no type for. Each is parsed and printed by the
// functions that absl::ParseFlag and absl::UnparseFlag find.

#ifndef HINDSIGHT_CLI_OPTION_VALUES_H_
#define HINDSIGHT_CLI_OPTION_VALUES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace hindsight {

// Bytes: "1000", "64K", "1.5M", "2G" (powers of 1024; a B or iB after the letter is accepted).
// 0, not given: no limit.
struct SizeValue {
  uint64_t bytes = 0;
};
bool AbslParseFlag(absl::string_view text, SizeValue* value, std::string* error);
std::string AbslUnparseFlag(const SizeValue& value);

// A time span: "10", "2.5s" (seconds), "500ms", "3m". 0, not given: no limit.
struct SecondsValue {
  double seconds = 0;
};
bool AbslParseFlag(absl::string_view text, SecondsValue* value, std::string* error);
std::string AbslUnparseFlag(const SecondsValue& value);

// One of a few words, and one of them may have an argument: "follow", "none", "only=NAME".
struct ChildrenValue {
  enum Policy : uint8_t { kFollow, kNone, kOnly };
  Policy policy = kFollow;
  std::string program;  // of kOnly
};
bool AbslParseFlag(absl::string_view text, ChildrenValue* value, std::string* error);
std::string AbslUnparseFlag(const ChildrenValue& value);

// Whether the environment is stored: "all" or "none".
struct EnvironmentValue {
  bool all = true;
};
bool AbslParseFlag(absl::string_view text, EnvironmentValue* value, std::string* error);
std::string AbslUnparseFlag(const EnvironmentValue& value);

// A seed of random choices, if they are wanted: "random" (a new one each time), or a number.
struct SeedValue {
  bool given = false;
  std::optional<uint64_t> seed;  // nothing: a new one
};
bool AbslParseFlag(absl::string_view text, SeedValue* value, std::string* error);
std::string AbslUnparseFlag(const SeedValue& value);

// How often: a number that is not 0, or "forever".
struct RunsValue {
  bool given = false;
  uint64_t most = 0;  // 0: forever
};
bool AbslParseFlag(absl::string_view text, RunsValue* value, std::string* error);
std::string AbslUnparseFlag(const RunsValue& value);

}  // namespace hindsight

#endif  // HINDSIGHT_CLI_OPTION_VALUES_H_
