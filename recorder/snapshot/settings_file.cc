#include "recorder/snapshot/settings_file.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace hindsight {
namespace {

bool IsBare(char c) { return absl::ascii_isalnum(c) || c == '_' || c == '-'; }

// Reads from the front. The first error stays, and everything fails after it.
class Parser {
 public:
  Parser(absl::string_view text, FileError* error) : rest_(text), error_(*error) {}

  std::vector<FileSetting> Parse() {
    std::vector<FileSetting> settings;
    while (SkipEmptyLines() && !rest_.empty()) {
      FileSetting setting;
      setting.line = line_;
      if (!Setting(&setting)) break;
      settings.push_back(std::move(setting));
    }
    return settings;
  }

 private:
  bool Fail(absl::string_view message) {
    if (error_.line == 0) error_ = {line_, std::string(message)};
    return false;
  }

  bool Next(char c) const { return !rest_.empty() && rest_.front() == c; }
  char Take() {
    const char c = rest_.front();
    rest_.remove_prefix(1);
    if (c == '\n') ++line_;
    return c;
  }

  void SkipSpaces() {
    while (Next(' ') || Next('\t') || Next('\r')) Take();
    if (!Next('#')) return;
    while (!rest_.empty() && !Next('\n')) Take();
  }
  bool SkipEmptyLines() {
    for (SkipSpaces(); Next('\n'); SkipSpaces()) Take();
    return true;
  }

  bool Setting(FileSetting* setting) {
    if (Next('[')) return Fail("there are no sections");
    while (!rest_.empty() && IsBare(rest_.front())) setting->name.push_back(Take());
    if (setting->name.empty()) return Fail("a line is NAME = VALUE");
    SkipSpaces();
    if (!Next('=')) return Fail(absl::StrCat("\"=\" is missing after ", setting->name));
    Take();
    SkipSpaces();
    if (!(Next('[') ? List(&setting->values) : Value(&setting->values))) return false;
    SkipSpaces();
    return rest_.empty() || Next('\n') || Fail("something follows the value");
  }

  bool List(std::vector<std::string>* values) {
    Take();
    for (SkipEmptyLines(); !Next(']'); SkipEmptyLines()) {
      if (!Value(values)) return false;
      SkipEmptyLines();
      if (Next(']')) break;
      if (!Next(',')) return Fail("a list is [VALUE, VALUE]");
      Take();
    }
    Take();
    return true;
  }

  bool Value(std::vector<std::string>* values) {
    std::string value;
    if (Next('"') || Next('\'')) {
      if (!String(&value)) return false;
    } else {
      while (!rest_.empty() && (IsBare(rest_.front()) || Next('.') || Next('+'))) {
        value.push_back(Take());
      }
      if (value.empty()) return Fail("a value is missing");
      const bool is_word = value == "true" || value == "false";
      if (!is_word && absl::ascii_isalpha(value[0])) {
        return Fail(absl::StrCat("a text stands in quotes: \"", value, "\""));
      }
    }
    values->push_back(std::move(value));
    return true;
  }

  bool String(std::string* value) {
    const char quote = Take();
    while (!Next(quote)) {
      if (rest_.empty() || Next('\n')) return Fail("a text does not end on its line");
      char c = Take();
      if (c == '\\' && quote == '"' && !Escape(&c)) return false;
      value->push_back(c);
    }
    Take();
    return true;
  }

  bool Escape(char* c) {
    const char escaped = rest_.empty() ? 0 : Take();
    switch (escaped) {
      case '"':
      case '\\':
        *c = escaped;
        return true;
      case 'n':
        *c = '\n';
        return true;
      case 't':
        *c = '\t';
        return true;
      default:
        return Fail("after \\ stands one of \" \\ n t");
    }
  }

  absl::string_view rest_;
  FileError& error_;
  int line_ = 1;
};

}  // namespace

std::vector<FileSetting> ParseSettingsFile(absl::string_view text, FileError* error) {
  return Parser(text, error).Parse();
}

}  // namespace hindsight
