// Hexadecimal and escaped binary, the two ways in which packets carry bytes.

#ifndef HINDSIGHT_SERVER_RSP_HEX_H_
#define HINDSIGHT_SERVER_RSP_HEX_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace hindsight::rsp {

// The value of a hexadecimal digit of either case, -1 for any other character.
int HexDigit(char c);

void AppendHex(absl::string_view bytes, std::string* out);
std::string HexEncode(absl::string_view bytes);
// nullopt for an odd number of digits or anything that is not a digit.
std::optional<std::string> HexDecode(absl::string_view digits);
// A number of one to sixteen significant digits, all of `digits`.
std::optional<uint64_t> ParseHex(absl::string_view digits);

// Appends as many of `bytes` as fit into `max_bytes` more bytes of `out` once '#', '$', '}' and '*'
// are escaped. Returns how many of `bytes` were taken.
size_t AppendEscaped(absl::string_view bytes, size_t max_bytes, std::string* out);
// nullopt if the last byte is an escape without the byte it escapes.
std::optional<std::string> Unescape(absl::string_view escaped);

}  // namespace hindsight::rsp

#endif  // HINDSIGHT_SERVER_RSP_HEX_H_
