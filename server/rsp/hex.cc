#include "server/rsp/hex.h"

namespace hindsight::rsp {
namespace {

constexpr char kDigits[] = "0123456789abcdef";
constexpr char kEscape = '}';
constexpr char kEscapeMask = 0x20;

bool NeedsEscape(char c) { return c == '#' || c == '$' || c == kEscape || c == '*'; }

}  // namespace

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

void AppendHex(absl::string_view bytes, std::string* out) {
  const size_t start = out->size();
  out->resize(start + 2 * bytes.size());
  char* next = out->data() + start;
  for (const char c : bytes) {
    *next++ = kDigits[static_cast<uint8_t>(c) >> 4];
    *next++ = kDigits[static_cast<uint8_t>(c) & 15];
  }
}

std::string HexEncode(absl::string_view bytes) {
  std::string out;
  AppendHex(bytes, &out);
  return out;
}

std::optional<std::string> HexDecode(absl::string_view digits) {
  if (digits.size() % 2 != 0) return std::nullopt;
  std::string bytes(digits.size() / 2, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) {
    const int high = HexDigit(digits[2 * i]);
    const int low = HexDigit(digits[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes[i] = static_cast<char>(high << 4 | low);
  }
  return bytes;
}

std::optional<uint64_t> ParseHex(absl::string_view digits) {
  if (digits.empty()) return std::nullopt;
  uint64_t value = 0;
  for (const char c : digits) {
    const int digit = HexDigit(c);
    if (digit < 0 || value >> 60 != 0) return std::nullopt;
    value = value << 4 | static_cast<uint64_t>(digit);
  }
  return value;
}

size_t AppendEscaped(absl::string_view bytes, size_t max_bytes, std::string* out) {
  const size_t end = out->size() + max_bytes;
  size_t taken = 0;
  for (; taken < bytes.size(); ++taken) {
    const char c = bytes[taken];
    if (out->size() + (NeedsEscape(c) ? 2 : 1) > end) break;
    if (NeedsEscape(c)) {
      out->push_back(kEscape);
      out->push_back(static_cast<char>(c ^ kEscapeMask));
    } else {
      out->push_back(c);
    }
  }
  return taken;
}

std::optional<std::string> Unescape(absl::string_view escaped) {
  std::string bytes;
  bytes.reserve(escaped.size());
  for (size_t i = 0; i < escaped.size(); ++i) {
    if (escaped[i] != kEscape) {
      bytes.push_back(escaped[i]);
      continue;
    }
    if (++i == escaped.size()) return std::nullopt;
    bytes.push_back(static_cast<char>(escaped[i] ^ kEscapeMask));
  }
  return bytes;
}

}  // namespace hindsight::rsp
