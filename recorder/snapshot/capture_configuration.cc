#include "recorder/snapshot/capture_configuration.h"

#include <signal.h>
#include <string.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "recorder/snapshot/settings_file.h"
#include "recorder/symbols/symbols.h"

namespace hindsight {
namespace {

using Values = absl::Span<const std::string>;

absl::Status Wrong(absl::string_view value, absl::string_view wanted) {
  return absl::InvalidArgumentError(absl::StrCat("\"", value, "\" is not ", wanted));
}

absl::Status NoSetting(absl::string_view name) {
  return absl::InvalidArgumentError(absl::StrCat("there is no setting \"", name, "\""));
}

absl::StatusOr<std::string> One(Values values) {
  if (values.size() == 1) return values[0];
  return absl::InvalidArgumentError("takes one value");
}

// The elements of values that are lists themselves: "1,2" and "3".
std::vector<std::string> Elements(Values values) {
  std::vector<std::string> elements;
  for (const std::string& value : values) {
    for (absl::string_view element : absl::StrSplit(value, ',')) {
      elements.emplace_back(absl::StripAsciiWhitespace(element));
    }
  }
  return elements;
}

// Decimal, or hexadecimal after 0x.
template <typename Number>
bool ParseNumber(absl::string_view text, Number* number) {
  if (absl::ConsumePrefix(&text, "0x")) return absl::SimpleHexAtoi(text, number);
  return absl::SimpleAtoi(text, number);
}

template <typename Number>
absl::Status SetNumber(Values values, Number least, Number* number) {
  ASSIGN_OR_RETURN(const std::string text, One(values));
  Number parsed = 0;
  if (!ParseNumber(text, &parsed) || parsed < least) {
    return Wrong(text, least > 0 ? "a number above 0" : "a number that fits");
  }
  *number = parsed;
  return absl::OkStatus();
}

// "10" (seconds), "2.5s", "100ms".
absl::Status SetDuration(Values values, absl::Duration* duration) {
  ASSIGN_OR_RETURN(const std::string text, One(values));
  absl::Duration parsed;
  double seconds = 0;
  if (absl::SimpleAtod(text, &seconds)) {
    parsed = absl::Seconds(seconds);
  } else if (!absl::ParseDuration(text, &parsed)) {
    return Wrong(text, "a time span (100ms, 2.5s, 3m)");
  }
  if (parsed < absl::ZeroDuration() || parsed > absl::Hours(24 * 365)) {
    return Wrong(text, "a time span of up to a year");
  }
  *duration = parsed;
  return absl::OkStatus();
}

// "5" or "4-7".
absl::Status SetNumbers(Values values, std::vector<NumberRange>* ranges) {
  std::vector<NumberRange> parsed;
  for (const std::string& text : Elements(values)) {
    const std::pair<absl::string_view, absl::string_view> ends =
        absl::StrSplit(text, absl::MaxSplits('-', 1));
    NumberRange range;
    if (!ParseNumber(ends.first, &range.first)) return Wrong(text, "a number, or a range as 4-7");
    range.last = range.first;
    if (absl::StrContains(text, '-') &&
        (!ParseNumber(ends.second, &range.last) || range.last < range.first)) {
      return Wrong(text, "a range as 4-7");
    }
    parsed.push_back(range);
  }
  *ranges = std::move(parsed);
  return absl::OkStatus();
}

absl::Status SetAttributes(Values values, std::vector<WantedAttribute>* attributes) {
  std::vector<WantedAttribute> parsed;
  for (const std::string& text : values) {
    std::pair<std::string, std::string> sides = absl::StrSplit(text, absl::MaxSplits('=', 1));
    if (sides.first.empty()) return Wrong(text, "KEY=VALUE or KEY");
    parsed.push_back({std::move(sides.first), std::move(sides.second)});
  }
  *attributes = std::move(parsed);
  return absl::OkStatus();
}

absl::Status SetTriggers(Values values, PointFilter* points) {
  PointFilter parsed = *points;
  parsed.calls = parsed.points = parsed.conditions = parsed.assertions = false;
  for (const std::string& text : Elements(values)) {
    bool* trigger = text == "call"        ? &parsed.calls
                    : text == "point"     ? &parsed.points
                    : text == "condition" ? &parsed.conditions
                    : text == "assertion" ? &parsed.assertions
                                          : nullptr;
    if (trigger != nullptr) {
      *trigger = true;
    } else if (text != "none") {
      return Wrong(text, "call, point, condition, assertion or none");
    }
  }
  *points = std::move(parsed);
  return absl::OkStatus();
}

// "SEGV", "SIGSEGV" or 11; 0: none.
int SignalOf(absl::string_view text) {
  int number = 0;
  if (absl::SimpleAtoi(text, &number)) return number > 0 && number <= SIGRTMAX ? number : 0;
  absl::ConsumePrefix(&text, "SIG");
  for (number = 1; number < __SIGRTMIN; ++number) {
    const char* name = sigabbrev_np(number);
    if (name != nullptr && text == name) return number;
  }
  return 0;
}

absl::Status SetSignals(Values values, std::vector<int>* signals) {
  std::vector<int> parsed;
  for (const std::string& text : Elements(values)) {
    const int number = SignalOf(text);
    if (number == 0) return Wrong(text, "a signal (SEGV, SIGSEGV, 11)");
    if (number == SIGKILL || number == SIGSTOP) {
      return Wrong(text, "a signal that can be caught");
    }
    parsed.push_back(number);
  }
  *signals = std::move(parsed);
  return absl::OkStatus();
}

absl::Status SetNames(Values values, absl::string_view what, std::vector<std::string>* names) {
  for (const std::string& text : values) {
    if (text.empty()) return Wrong(text, what);
  }
  names->assign(values.begin(), values.end());
  return absl::OkStatus();
}

absl::Status SetPlaces(Values values, std::vector<std::string>* places) {
  for (const std::string& text : values) {
    RETURN_IF_ERROR(ParseCodePlace(text).status());
  }
  places->assign(values.begin(), values.end());
  return absl::OkStatus();
}

// Hexadecimal addresses, BEGIN-END.
bool ParseRange(absl::string_view text, SavedRange* range) {
  const std::vector<absl::string_view> ends = absl::StrSplit(text, '-');
  if (ends.size() != 2) return false;
  return absl::SimpleHexAtoi(ends[0], &range->begin) && absl::SimpleHexAtoi(ends[1], &range->end) &&
         range->begin < range->end;
}

absl::Status SetSaved(Values values, SavedMemory* saved) {
  SavedMemory parsed;
  parsed.all = false;
  for (const std::string& text : Elements(values)) {
    absl::string_view rest = text;
    SavedRange range;
    if (text == "all") {
      parsed.all = true;
    } else if (text == "stacks") {
      parsed.stacks = true;
    } else if (absl::ConsumePrefix(&rest, "range:") && ParseRange(rest, &range)) {
      parsed.ranges.push_back(range);
    } else if (absl::ConsumePrefix(&rest, "variable:") && !rest.empty()) {
      parsed.variables.emplace_back(rest);
    } else {
      return Wrong(text, "all, stacks, range:BEGIN-END (hexadecimal) or variable:NAME");
    }
  }
  *saved = std::move(parsed);
  return absl::OkStatus();
}

// One table: the names, the text of help, and what a value does.
struct Entry {
  CaptureSetting setting;
  absl::Status (*set)(Values, CaptureConfiguration*);
};

const Entry kEntries[] = {
    {{"level", "N", "Breakpoints of at least this level pass. Without it all do."},
     [](Values v, CaptureConfiguration* c) {
       return SetNumber(v, std::numeric_limits<int32_t>::min(), &c->points.minimum_level);
     }},
    {{"class", "N[-M],...", "Breakpoints of these classes pass. Without it all do.", true},
     [](Values v, CaptureConfiguration* c) { return SetNumbers(v, &c->points.classes); }},
    {{"id", "N[-M],...", "Breakpoints with these ids pass. Without it all do.", true},
     [](Values v, CaptureConfiguration* c) { return SetNumbers(v, &c->points.ids); }},
    {{"attr", "KEY[=VALUE]",
      "Breakpoints with this attribute pass; of several values of a key one is enough, of several "
      "keys all are needed.",
      true},
     [](Values v, CaptureConfiguration* c) { return SetAttributes(v, &c->points.attributes); }},
    {{"trigger", "NAME,...",
      "What the program may trigger: call, point, condition, assertion, or none. Without it all of "
      "them.",
      true},
     [](Values v, CaptureConfiguration* c) { return SetTriggers(v, &c->points); }},
    {{"on-exception", "TYPE",
      "Take a snapshot when a C++ exception of this type, or one derived from it, is thrown "
      "(\"*\": of any). The program needs libhindsight_exceptions.",
      true},
     [](Values v, CaptureConfiguration* c) {
       return SetNames(v, "a type", &c->points.exceptions);
     }},
    {{"skip", "N", "The first N points that would pass do not."},
     [](Values v, CaptureConfiguration* c) { return SetNumber(v, uint64_t{0}, &c->points.skip); }},
    {{"stride", "N", "Of the points that would pass, one in N does."},
     [](Values v, CaptureConfiguration* c) {
       return SetNumber(v, uint64_t{1}, &c->points.stride);
     }},
    {{"interval", "TIME", "After a point that passed none passes for so long."},
     [](Values v, CaptureConfiguration* c) { return SetDuration(v, &c->points.interval); }},
    {{"every", "TIME", "Take a snapshot each time so long has passed (10, 2.5s, 100ms)."},
     [](Values v, CaptureConfiguration* c) { return SetDuration(v, &c->every); }},
    {{"on-signal", "NAME,...",
      "Take a snapshot before one of these signals is delivered (SEGV,ABRT).", true},
     [](Values v, CaptureConfiguration* c) { return SetSignals(v, &c->signals); }},
    {{"at", "PLACE",
      "Take a snapshot where a thread arrives: FUNCTION, FUNCTION+OFFSET, FILE:FUNCTION (FILE: the "
      "program or a library), SOURCE:LINE (solver.c:120), 0xADDRESS.",
      true},
     [](Values v, CaptureConfiguration* c) { return SetPlaces(v, &c->functions); }},
    {{"max", "N", "Take no more after so many; the program continues. 0: no limit."},
     [](Values v, CaptureConfiguration* c) {
       return SetNumber(v, uint64_t{0}, &c->max_snapshots);
     }},
    {{"save", "WHAT,...",
      "What is saved of memory: all, stacks, range:BEGIN-END (hexadecimal), variable:NAME. Without "
      "it all.",
      true},
     [](Values v, CaptureConfiguration* c) { return SetSaved(v, &c->save); }},
};

}  // namespace

absl::Span<const CaptureSetting> CaptureSettings() {
  static const auto* settings = [] {
    auto* result = new std::vector<CaptureSetting>;
    for (const Entry& entry : kEntries) result->push_back(entry.setting);
    return result;
  }();
  return *settings;
}

absl::Status CaptureConfiguration::Apply(absl::string_view name,
                                         absl::Span<const std::string> values) {
  for (const Entry& entry : kEntries) {
    if (entry.setting.name != name) continue;
    const absl::Status status = entry.set(values, this);
    if (status.ok()) return status;
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", status.message()));
  }
  return NoSetting(name);
}

absl::Status ReadCaptureFile(const std::string& path, absl::Span<const std::string> names,
                             CaptureConfiguration* configuration) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file.is_open() || file.bad()) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  const auto at = [&](int line, absl::string_view message) {
    return absl::InvalidArgumentError(absl::StrCat(path, ":", line, ": ", message));
  };
  FileError error;
  const std::vector<FileSetting> settings = ParseSettingsFile(text.str(), &error);
  std::set<std::string> seen;
  CaptureConfiguration applied = *configuration;
  for (const FileSetting& setting : settings) {
    if (!seen.insert(setting.name).second) {
      return at(setting.line, absl::StrCat(setting.name, " is set twice"));
    }
    const bool is_known = std::find(names.begin(), names.end(), setting.name) != names.end();
    const absl::Status status =
        is_known ? applied.Apply(setting.name, setting.values) : NoSetting(setting.name);
    if (!status.ok()) return at(setting.line, status.message());
  }
  if (error.line != 0) return at(error.line, error.message);
  *configuration = std::move(applied);
  return absl::OkStatus();
}

}  // namespace hindsight
