#include "cli/snapshots/variables.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "keyframes/inspect/elf_image.h"

namespace hindsight {
namespace {

constexpr uint64_t kMostBytes = uint64_t{256} << 20;

bool ParseNumber(absl::string_view text, uint64_t* number) {
  if (absl::StartsWith(text, "0x")) return absl::SimpleHexAtoi(text, number);
  return absl::SimpleAtoi(text, number);
}

// In the file mapped from `region.start`, which begins there.
std::optional<Variable> FindIn(const TraceReader& trace, const MapRegion& region,
                               absl::string_view name) {
  const auto bytes = trace.ModuleBytes(region.module);
  if (!bytes.ok()) return std::nullopt;
  const auto image = ElfImage::Parse(*bytes);
  if (!image.ok()) return std::nullopt;
  const std::optional<uint64_t> linked = image->FirstAddress();
  if (!linked.has_value()) return std::nullopt;
  for (const ElfImage::Object& object : image->Objects()) {
    if (object.name != name) continue;
    return Variable{object.name, region.start - *linked + object.address, object.size_bytes};
  }
  return std::nullopt;
}

absl::StatusOr<Variable> ParseRange(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(text, ',');
  Variable variable = {.name = std::string(text), .address = 0, .size_bytes = 0};
  if (!ParseNumber(parts.first, &variable.address) ||
      !ParseNumber(parts.second, &variable.size_bytes) || variable.size_bytes == 0 ||
      variable.size_bytes > kMostBytes) {
    return absl::InvalidArgumentError(absl::StrCat(text, ": is not ADDRESS,SIZE"));
  }
  return variable;
}

template <typename T>
std::vector<uint8_t> BytesOf(const T& value, uint64_t size_bytes) {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(&value);
  return {bytes, bytes + std::min<uint64_t>(sizeof(T), size_bytes)};
}

}  // namespace

absl::StatusOr<Variable> FindVariable(const TraceReader& trace, const FullKeyframe& keyframe,
                                      absl::string_view text) {
  if (absl::StrContains(text, ',')) return ParseRange(text);
  const std::string& program = trace.manifest().program;
  for (const bool in_program : {true, false}) {
    for (const MapRegion& region : keyframe.maps()) {
      if (region.module < 0 || region.file_offset != 0) continue;
      if ((region.name == program) != in_program) continue;
      const std::optional<Variable> found = FindIn(trace, region, text);
      if (found.has_value() && found->size_bytes <= kMostBytes) return *found;
    }
  }
  return absl::NotFoundError(absl::StrCat(
      text, ": no variable with this symbol and a size (ADDRESS,SIZE names any memory)"));
}

absl::StatusOr<std::vector<uint8_t>> ParseBytes(absl::string_view text, uint64_t size_bytes) {
  const auto wrong = absl::InvalidArgumentError(
      absl::StrCat(text, ": is no value for a variable of ", size_bytes, " bytes"));
  if (absl::ConsumePrefix(&text, "hex:")) {
    const std::string bytes = absl::HexStringToBytes(text);
    if (text.size() != 2 * size_bytes || bytes.size() != size_bytes ||
        absl::BytesToHexString(bytes) != absl::AsciiStrToLower(text)) {
      return wrong;
    }
    return std::vector<uint8_t>(bytes.begin(), bytes.end());
  }
  if (absl::StrContains(text, '.')) {
    double real = 0;
    if (!absl::SimpleAtod(text, &real)) return wrong;
    if (size_bytes == 8) return BytesOf(real, 8);
    if (size_bytes == 4) return BytesOf(static_cast<float>(real), 4);
    return wrong;
  }
  int64_t number = 0;
  uint64_t positive = 0;
  if (absl::StartsWith(text, "-") && absl::SimpleAtoi(text, &number)) {
    positive = static_cast<uint64_t>(number);
    const int64_t least = size_bytes >= 8 ? INT64_MIN : -(int64_t{1} << (8 * size_bytes - 1));
    if (size_bytes > 8 || number < least) return wrong;
  } else if (!ParseNumber(text, &positive) || size_bytes > 8 ||
             (size_bytes < 8 && positive >> (8 * size_bytes) != 0)) {
    return wrong;
  }
  return BytesOf(positive, size_bytes);
}

std::string BytesText(absl::Span<const uint8_t> bytes) {
  constexpr size_t kShown = 16;
  const absl::Span<const uint8_t> shown = bytes.subspan(0, std::min(bytes.size(), kShown));
  return absl::StrCat(
      absl::BytesToHexString({reinterpret_cast<const char*>(shown.data()), shown.size()}),
      shown.size() < bytes.size() ? "..." : "");
}

}  // namespace hindsight
