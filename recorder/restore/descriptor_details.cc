#include "recorder/restore/descriptor_details.h"

#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"

namespace hindsight {
namespace {

// What follows "KEY:" in the line that begins with it.
std::optional<std::string> Value(absl::string_view details, absl::string_view key) {
  for (const absl::string_view line : absl::StrSplit(details, '\n')) {
    const absl::string_view text = absl::StripLeadingAsciiWhitespace(line);
    if (absl::StartsWith(text, key) && text.substr(key.size(), 1) == ":") {
      return std::string(absl::StripAsciiWhitespace(text.substr(key.size() + 1)));
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<uint64_t> DetailNumber(absl::string_view details, absl::string_view key, int base) {
  const std::optional<std::string> value = Value(details, key);
  if (!value.has_value() || value->empty()) return std::nullopt;
  return std::strtoull(value->c_str(), nullptr, base);
}

std::optional<uint64_t> DetailTimeNs(absl::string_view details, absl::string_view key) {
  const std::optional<std::string> value = Value(details, key);
  if (!value.has_value() || value->empty() || (*value)[0] != '(') return std::nullopt;
  char* end = nullptr;
  const uint64_t seconds = std::strtoull(value->c_str() + 1, &end, 10);
  if (*end != ',') return std::nullopt;
  return seconds * 1'000'000'000 + std::strtoull(end + 1, nullptr, 10);
}

std::vector<EpollTarget> EpollTargets(absl::string_view details) {
  std::vector<EpollTarget> targets;
  for (const absl::string_view line : absl::StrSplit(details, '\n')) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipWhitespace());
    EpollTarget target;
    bool whole = false;
    for (size_t i = 0; i + 1 < words.size(); ++i) {
      const char* const value = words[i + 1].c_str();
      if (words[i] == "tfd:") target.fd = std::atoi(value);
      if (words[i] == "events:") {
        target.events = static_cast<uint32_t>(std::strtoull(value, nullptr, 16));
      }
      if (words[i] == "data:") {
        target.data = std::strtoull(value, nullptr, 16);
        whole = words[0] == "tfd:";
      }
    }
    if (whole) targets.push_back(target);
  }
  return targets;
}

}  // namespace hindsight
