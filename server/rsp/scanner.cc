#include "server/rsp/scanner.h"

#include "absl/strings/strip.h"
#include "server/rsp/hex.h"

namespace hindsight::rsp {

bool Scanner::Consume(char c) {
  if (rest_.empty() || rest_.front() != c) return false;
  rest_.remove_prefix(1);
  return true;
}

bool Scanner::Consume(absl::string_view prefix) { return absl::ConsumePrefix(&rest_, prefix); }

std::optional<uint64_t> Scanner::Hex() {
  size_t digits = 0;
  while (digits < rest_.size() && HexDigit(rest_[digits]) >= 0) ++digits;
  const std::optional<uint64_t> value = ParseHex(rest_.substr(0, digits));
  if (value.has_value()) rest_.remove_prefix(digits);
  return value;
}

absl::string_view Scanner::Until(char delimiter) {
  const size_t end = rest_.find(delimiter);
  const absl::string_view part = rest_.substr(0, end);
  rest_.remove_prefix(end == absl::string_view::npos ? rest_.size() : end + 1);
  return part;
}

std::optional<absl::string_view> Scanner::Take(uint64_t size) {
  if (size > rest_.size()) return std::nullopt;
  const absl::string_view part = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return part;
}

}  // namespace hindsight::rsp
