#include "cli/options.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace hindsight {
namespace {

constexpr size_t kHelpColumn = 34;
constexpr size_t kHelpWidth = 96;

// `text` broken into lines that fit between kHelpColumn and kHelpWidth.
std::string Wrapped(absl::string_view text) {
  std::string out;
  size_t column = kHelpColumn;
  for (absl::string_view word : absl::StrSplit(text, ' ')) {
    if (column > kHelpColumn && column + 1 + word.size() > kHelpWidth) {
      absl::StrAppend(&out, "\n", std::string(kHelpColumn, ' '));
      column = kHelpColumn;
    } else if (column > kHelpColumn) {
      absl::StrAppend(&out, " ");
      ++column;
    }
    absl::StrAppend(&out, word);
    column += word.size();
  }
  return out;
}

std::string HelpEntry(std::string left, absl::string_view help) {
  if (left.size() + 2 > kHelpColumn) {
    absl::StrAppend(&left, "\n", std::string(kHelpColumn, ' '));
  } else {
    left.resize(kHelpColumn, ' ');
  }
  return absl::StrCat(left, Wrapped(help), "\n");
}

}  // namespace

const Options::Entry* Options::Find(absl::string_view name) const {
  for (const Entry& entry : entries_) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

const Options::Entry* Options::FindLetter(char letter) const {
  for (const Entry& entry : entries_) {
    if (entry.letter == letter) return &entry;
  }
  return nullptr;
}

absl::Status Options::ParseOption(absl::Span<const std::string> arguments, size_t* index) const {
  const std::string& argument = arguments[(*index)++];
  const Entry* entry = nullptr;
  std::string value;
  bool has_value = false;
  if (absl::StartsWith(argument, "--")) {
    std::pair<std::string, std::string> parts =
        absl::StrSplit(argument.substr(2), absl::MaxSplits('=', 1));
    has_value = absl::StrContains(argument, '=');
    value = parts.second;
    entry = Find(parts.first);
    if (entry == nullptr && !has_value && absl::StartsWith(parts.first, "no")) {
      entry = Find(absl::StripPrefix(parts.first, "no"));
      if (entry != nullptr && !entry->is_flag) entry = nullptr;
      value = "false";
      has_value = entry != nullptr;
    }
  } else {
    entry = FindLetter(argument[1]);
    value = argument.substr(2);
    has_value = !value.empty();
  }
  if (entry == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("unknown option ", argument));
  }
  if (!has_value && entry->is_flag) {
    value = "true";
  } else if (!has_value && !entry->implied.empty()) {
    value = entry->implied;
  } else if (!has_value) {
    if (*index == arguments.size()) {
      return absl::InvalidArgumentError(absl::StrCat("option ", argument, " needs a value"));
    }
    value = arguments[(*index)++];
  }
  std::string error;
  if (!entry->parse(value, &error)) {
    return absl::InvalidArgumentError(absl::StrCat("option --", entry->name, ": cannot read '",
                                                   value, "'", error.empty() ? "" : ": ", error));
  }
  return absl::OkStatus();
}

absl::StatusOr<Options::Parsed> Options::Parse(absl::Span<const std::string> arguments,
                                               bool operands_end_options) const {
  Parsed parsed;
  size_t index = 0;
  while (index < arguments.size()) {
    const std::string& argument = arguments[index];
    if (argument == "--") {
      parsed.separator = true;
      ++index;
      break;
    }
    if (argument == "--help" || argument == "-h") {
      parsed.help = true;
      return parsed;
    }
    if (argument.size() > 1 && argument[0] == '-') {
      absl::Status status = ParseOption(arguments, &index);
      if (!status.ok()) return status;
      continue;
    }
    if (operands_end_options) break;
    parsed.operands.push_back(argument);
    ++index;
  }
  parsed.rest.assign(arguments.begin() + index, arguments.end());
  return parsed;
}

std::string Options::Help() const {
  std::string out =
      absl::StrCat("Usage: hindsight ", usage_, "\n\n", description_, "\n\nOptions:\n");
  for (const Entry& entry : entries_) {
    std::string left = "  ";
    if (entry.letter != 0) absl::StrAppend(&left, "-", std::string(1, entry.letter), ", ");
    absl::StrAppend(&left, "--", entry.name);
    if (!entry.implied.empty()) {
      absl::StrAppend(&left, "[=", entry.placeholder, "]");
    } else if (!entry.is_flag) {
      absl::StrAppend(&left, "=", entry.placeholder);
    }
    std::string help = entry.help;
    if (!entry.is_flag && !entry.default_text.empty()) {
      absl::StrAppend(&help, " [", entry.default_text, "]");
    }
    absl::StrAppend(&out, HelpEntry(left, help));
  }
  absl::StrAppend(&out, HelpEntry("  -h, --help", "Show this help."));
  return out;
}

}  // namespace hindsight
