#include "base/printable.h"

#include <cstdint>

namespace hindsight {
namespace {

uint32_t CodePoint(absl::string_view sequence) {
  const uint8_t lead = static_cast<uint8_t>(sequence[0]);
  if (sequence.size() == 1) return lead;
  uint32_t value = lead & (0x7fu >> sequence.size());
  for (const char c : sequence.substr(1)) value = value << 6 | (static_cast<uint8_t>(c) & 0x3f);
  return value;
}

bool IsPrintable(uint32_t c) {
  if (c < 0x20 || (c >= 0x7f && c < 0xa0)) return false;  // C0, DEL, C1
  // Marks, line separators and everything that turns or isolates directions of writing.
  if ((c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e)) return false;
  if ((c >= 0x2060 && c <= 0x206f) || c == 0x061c || c == 0xfeff) return false;
  return c < 0xe0000 || c > 0xe0fff;  // invisible tags
}

std::string Escape(absl::string_view text, bool keep_lines) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    const bool kept = keep_lines && (text[0] == '\n' || text[0] == '\t');
    const size_t taken = length == 0 ? 1 : length;
    if (kept || (length != 0 && IsPrintable(CodePoint(text.substr(0, length))))) {
      out.append(text.data(), taken);
    } else {
      for (const char c : text.substr(0, taken)) {
        out += "\\x";
        out += kDigits[static_cast<uint8_t>(c) >> 4];
        out += kDigits[static_cast<uint8_t>(c) & 0xf];
      }
    }
    text.remove_prefix(taken);
  }
  return out;
}

}  // namespace

size_t Utf8Length(absl::string_view text) {
  const uint8_t lead = static_cast<uint8_t>(text[0]);
  const size_t length = lead < 0x80                   ? 1
                        : lead >= 0xc2 && lead < 0xe0 ? 2
                        : lead >= 0xe0 && lead < 0xf0 ? 3
                        : lead >= 0xf0 && lead < 0xf5 ? 4
                                                      : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((static_cast<uint8_t>(text[i]) & 0xc0) != 0x80) return 0;
  }
  if (length < 3) return length;
  const uint8_t second = static_cast<uint8_t>(text[1]);
  // Overlong forms, surrogates and values above U+10FFFF.
  if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second >= 0xa0) ||
      (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second >= 0x90)) {
    return 0;
  }
  return length;
}

std::string Printable(absl::string_view text) { return Escape(text, /*keep_lines=*/false); }
std::string PrintableLines(absl::string_view text) { return Escape(text, /*keep_lines=*/true); }

}  // namespace hindsight
