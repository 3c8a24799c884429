#include "cli/json.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/printable.h"

namespace hindsight {
void JsonWriter::NewLine() {
  if (compact_) return;
  absl::StrAppend(&text_, "\n", std::string(2 * depth_, ' '));
}

void JsonWriter::Separate() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (!first_) text_ += ',';
  if (depth_ > 0) NewLine();
  first_ = false;
}

JsonWriter& JsonWriter::Open(char bracket) {
  Separate();
  text_ += bracket;
  ++depth_;
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::Close(char bracket) {
  --depth_;
  if (!first_) NewLine();
  text_ += bracket;
  first_ = false;
  return *this;
}

JsonWriter& JsonWriter::Raw(absl::string_view value) {
  Separate();
  absl::StrAppend(&text_, value);
  return *this;
}

JsonWriter& JsonWriter::Key(absl::string_view name) {
  Separate();
  AppendQuoted(name);
  text_ += compact_ ? ":" : ": ";
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::String(absl::string_view value) {
  Separate();
  AppendQuoted(value);
  return *this;
}

JsonWriter& JsonWriter::Int(int64_t value) { return Raw(absl::StrCat(value)); }
JsonWriter& JsonWriter::Uint(uint64_t value) { return Raw(absl::StrCat(value)); }
JsonWriter& JsonWriter::Number(double value) {
  return Raw(std::isfinite(value) ? absl::StrFormat("%.6g", value) : "null");
}
JsonWriter& JsonWriter::Bool(bool value) { return Raw(value ? "true" : "false"); }
JsonWriter& JsonWriter::Hex(uint64_t value) { return String(absl::StrFormat("%#x", value)); }

void JsonWriter::AppendQuoted(absl::string_view value) {
  text_ += '"';
  while (!value.empty()) {
    uint8_t c = value[0];
    size_t length = Utf8Length(value);
    if (c == '"' || c == '\\') {
      text_ += '\\';
      text_ += static_cast<char>(c);
    } else if (c < 0x20 || c == 0x7f || length == 0) {
      absl::StrAppendFormat(&text_, "\\u%04x", c);
    } else {
      absl::StrAppend(&text_, value.substr(0, length));
    }
    value.remove_prefix(length == 0 ? 1 : length);
  }
  text_ += '"';
}

}  // namespace hindsight
