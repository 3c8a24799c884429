#include "cli/json.h"

#include <cmath>

#include "absl/strings/str_format.h"
#include "base/printable.h"

namespace hindsight {
namespace {

// `byte` is not ASCII, nor part of well-formed UTF-8.
void AppendAsCharacter(uint8_t byte, std::string* out) {
  *out += static_cast<char>(0xc0 | byte >> 6);
  *out += static_cast<char>(0x80 | (byte & 0x3f));
}

std::string Dump(const Json& json, int indent) {
  return json.dump(indent, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace) + "\n";
}

}  // namespace

Json JsonText(absl::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    if (length == 0) {
      AppendAsCharacter(static_cast<uint8_t>(text[0]), &valid);
    } else {
      valid.append(text.data(), length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return valid;
}

Json JsonHex(uint64_t value) { return absl::StrFormat("%#x", value); }

Json JsonNumber(double value) {
  if (!std::isfinite(value)) return nullptr;
  return Json::parse(absl::StrFormat("%.6g", value), /*cb=*/nullptr, /*allow_exceptions=*/false);
}

std::string JsonDocument(const Json& json) { return Dump(json, /*indent=*/2); }

std::string JsonLine(const Json& json) { return Dump(json, /*indent=*/-1); }

}  // namespace hindsight
