#include "cli/capture/capture_options.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace hindsight {

bool AbslParseFlag(absl::string_view text, TextsValue* value, std::string* error) {
  value->texts.emplace_back(text);
  return true;
}

std::string AbslUnparseFlag(const TextsValue& value) { return absl::StrJoin(value.texts, ","); }

void CaptureOptions::AddTo(Options* options, absl::Span<const absl::string_view> names) {
  for (const CaptureSetting& setting : CaptureSettings()) {
    if (std::find(names.begin(), names.end(), setting.name) == names.end()) continue;
    options->Add(setting.name, &values_[std::string(setting.name)], setting.placeholder,
                 setting.help);
  }
  options->Add("config", &file_, "FILE",
               "Read these settings from a file first: lines such as level = 2, class = [1, 4], "
               "every = \"100ms\".");
}

absl::StatusOr<CaptureConfiguration> CaptureOptions::Read() const {
  CaptureConfiguration configuration;
  if (!file_.empty()) {
    std::vector<std::string> names;
    for (const auto& [name, value] : values_) names.push_back(name);
    RETURN_IF_ERROR(ReadCaptureFile(file_, names, &configuration));
  }
  for (const CaptureSetting& setting : CaptureSettings()) {
    const auto value = values_.find(std::string(setting.name));
    if (value == values_.end() || value->second.texts.empty()) continue;
    // Of an option that is no list the last one counts.
    absl::Span<const std::string> texts = value->second.texts;
    if (!setting.is_list) texts = texts.last(1);
    const absl::Status status = configuration.Apply(setting.name, texts);
    if (!status.ok()) return absl::InvalidArgumentError(absl::StrCat("--", status.message()));
  }
  return configuration;
}

bool CaptureOptions::given() const {
  return !file_.empty() || std::any_of(values_.begin(), values_.end(), [](const auto& value) {
    return !value.second.texts.empty();
  });
}

}  // namespace hindsight
