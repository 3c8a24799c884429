// JSON as the commands print it: a document, or one object a line. Members keep the order in which
// they are added.
//
// Paths, arguments and thread names are any bytes: JsonText turns those that are not UTF-8 into
// U+00XX, and everything but ASCII is escaped in the output, which is therefore safe to show on any
// terminal. Nothing here throws.

#ifndef HINDSIGHT_CLI_JSON_H_
#define HINDSIGHT_CLI_JSON_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/string_view.h"

namespace hindsight {

using Json = nlohmann::ordered_json;

Json JsonText(absl::string_view text);
// As a string "0x1234": many readers lose precision above 2^53.
Json JsonHex(uint64_t value);
// With six significant digits; null unless finite.
Json JsonNumber(double value);

// Indented by two spaces a level, with a newline at the end; on one line, with a newline.
std::string JsonDocument(const Json& json);
std::string JsonLine(const Json& json);

}  // namespace hindsight

#endif  // HINDSIGHT_CLI_JSON_H_
