#include "recorder/snapshot/points/point.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace hindsight {
namespace {

absl::Status Fits(const std::string& text, absl::string_view what) {
  if (text.size() < HS_NAME_SIZE && text.find('\0') == std::string::npos) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " is longer than ", HS_NAME_SIZE - 1, " bytes: ", text));
}

uint32_t WriteRanges(const std::vector<NumberRange>& ranges, hs_range* to) {
  for (size_t i = 0; i < ranges.size(); ++i) to[i] = {ranges[i].first, ranges[i].last};
  return static_cast<uint32_t>(ranges.size());
}

uint32_t TriggerBits(const PointFilter& filter) {
  return (filter.calls ? 1u << HS_TRIGGER_CALL : 0) | (filter.points ? 1u << HS_TRIGGER_POINT : 0) |
         (filter.conditions ? 1u << HS_TRIGGER_CONDITION : 0) |
         (filter.assertions ? 1u << HS_TRIGGER_ASSERTION : 0) |
         (filter.exceptions.empty() ? 0 : 1u << HS_TRIGGER_EXCEPTION);
}

// The library looks for the values of a key side by side.
void WriteAttributes(std::vector<WantedAttribute> wanted, hs_control& control) {
  std::stable_sort(wanted.begin(), wanted.end(),
                   [](const auto& a, const auto& b) { return a.key < b.key; });
  for (size_t i = 0; i < wanted.size(); ++i) {
    hs_wanted& to = control.attributes[i];
    strncpy(to.key, wanted[i].key.c_str(), sizeof(to.key));
    strncpy(to.value, wanted[i].value.c_str(), sizeof(to.value));
    to.any_value = wanted[i].value.empty();
  }
  control.attribute_count = static_cast<uint32_t>(wanted.size());
}

// The text up to the first NUL, which is skipped.
std::string TakeText(absl::string_view& rest) {
  const size_t end = std::min(rest.find('\0'), rest.size());
  std::string text(rest.substr(0, end));
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return text;
}

// Null: the bytes are no control file.
std::unique_ptr<hs_control> ControlOf(absl::Span<const uint8_t> bytes) {
  if (bytes.size() < sizeof(hs_control)) return nullptr;
  auto control = std::make_unique<hs_control>();
  memcpy(control.get(), bytes.data(), sizeof(hs_control));
  const bool known = control->magic == HS_CONTROL_MAGIC && control->version == HS_CONTROL_VERSION;
  return known ? std::move(control) : nullptr;
}

// Whether both choose the same points, whatever is left out of these.
bool IsSameChoice(const hs_control& a, const hs_control& b) {
  return a.triggers == b.triggers && a.level == b.level && a.class_count == b.class_count &&
         a.id_count == b.id_count && a.attribute_count == b.attribute_count &&
         a.type_count == b.type_count && memcmp(a.classes, b.classes, sizeof(a.classes)) == 0 &&
         memcmp(a.ids, b.ids, sizeof(a.ids)) == 0 &&
         memcmp(a.attributes, b.attributes, sizeof(a.attributes)) == 0 &&
         memcmp(a.types, b.types, sizeof(a.types)) == 0;
}

}  // namespace

absl::Status FilterFits(const PointFilter& filter) {
  const auto fits = [](size_t count, size_t most, absl::string_view what) {
    if (count <= most) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("more than ", most, " ", what));
  };
  RETURN_IF_ERROR(fits(filter.classes.size(), HS_RANGES, "ranges of classes"));
  RETURN_IF_ERROR(fits(filter.ids.size(), HS_RANGES, "ranges of ids"));
  RETURN_IF_ERROR(fits(filter.attributes.size(), HS_ATTRIBUTES, "attributes"));
  RETURN_IF_ERROR(fits(filter.exceptions.size(), HS_TYPES, "types of exceptions"));
  for (const WantedAttribute& attribute : filter.attributes) {
    RETURN_IF_ERROR(Fits(attribute.key, "a key"));
    RETURN_IF_ERROR(Fits(attribute.value, "a value"));
  }
  for (const std::string& type : filter.exceptions) RETURN_IF_ERROR(Fits(type, "a type"));
  return absl::OkStatus();
}

void WriteFilter(const PointFilter& filter, hs_control& control) {
  control.triggers = TriggerBits(filter);
  control.level = filter.minimum_level;
  control.class_count = WriteRanges(filter.classes, control.classes);
  control.id_count = WriteRanges(filter.ids, control.ids);
  WriteAttributes(filter.attributes, control);
  for (size_t i = 0; i < filter.exceptions.size(); ++i) {
    strncpy(control.types[i], filter.exceptions[i].c_str(), sizeof(control.types[i]));
  }
  control.type_count = static_cast<uint32_t>(filter.exceptions.size());
  control.skip = filter.skip;
  control.stride = std::max<uint64_t>(1, filter.stride);
  control.interval_ns = std::max<int64_t>(0, absl::ToInt64Nanoseconds(filter.interval));
}

void ContinueCounts(absl::Span<const uint8_t> earlier, hs_control& control) {
  const auto before = ControlOf(earlier);
  if (before == nullptr) return;
  control.passed = before->passed;
  memcpy(control.once, before->once, sizeof(control.once));
  control.once_all_ones = before->once_all_ones;
}

bool CountAlike(absl::Span<const uint8_t> earlier, const PointFilter& filter) {
  const auto before = ControlOf(earlier);
  if (before == nullptr) return true;
  const auto now = std::make_unique<hs_control>();
  WriteFilter(filter, *now);
  if (now->interval_ns != 0 && before->interval_ns == 0) return false;
  // With neither skip nor stride the program does not count.
  if (before->stride <= 1) return now->stride == 1 && now->skip <= before->passed;
  return now->skip == before->skip && now->stride == before->stride && IsSameChoice(*before, *now);
}

Point PointOf(const hs_slot& slot) {
  Point point;
  point.process = slot.process;
  point.thread = slot.thread;
  point.trigger = static_cast<Trigger>(
      std::clamp<uint32_t>(slot.trigger, HS_TRIGGER_CALL, HS_TRIGGER_EXCEPTION));
  point.level = slot.level;
  point.class_number = slot.class_number;
  point.id = slot.id;
  point.is_cut = slot.is_cut != 0;
  const size_t label_size = std::min<size_t>(slot.label_size, HS_TEXT_SIZE);
  absl::string_view label(slot.text, label_size);
  point.label = TakeText(label);
  const size_t size = std::min<size_t>(slot.attributes_size, HS_TEXT_SIZE - label_size);
  absl::string_view rest(slot.text + label_size, size);
  while (!rest.empty()) {
    std::string key = TakeText(rest);
    std::string value = TakeText(rest);
    point.attributes.emplace_back(std::move(key), std::move(value));
  }
  return point;
}

// One line each, so that no value can look like another key.
std::string PointText(const Point& point) {
  const auto line = [](const std::string& key, const std::string& value) {
    return absl::StrCat(absl::StrReplaceAll(key, {{"\n", " "}, {"=", " "}}), "=",
                        absl::StrReplaceAll(value, {{"\n", " "}}), "\n");
  };
  std::string text;
  if (!point.label.empty()) text = line("label", point.label);
  for (const auto& [key, value] : point.attributes) text += line(key, value);
  return text;
}

}  // namespace hindsight
