#include "cli/json.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace hindsight {
namespace {

// Length of the well-formed UTF-8 sequence at the start of `text`; 0 if it is not one.
size_t Utf8Length(absl::string_view text) {
  uint8_t lead = text[0];
  size_t length = lead < 0x80                   ? 1
                  : lead >= 0xc2 && lead < 0xe0 ? 2
                  : lead >= 0xe0 && lead < 0xf0 ? 3
                  : lead >= 0xf0 && lead < 0xf5 ? 4
                                                : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((static_cast<uint8_t>(text[i]) & 0xc0) != 0x80) return 0;
  }
  if (length < 3) return length;
  uint8_t second = text[1];
  // Overlong forms, surrogates and values above U+10FFFF.
  if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second >= 0xa0) ||
      (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second >= 0x90)) {
    return 0;
  }
  return length;
}

}  // namespace

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
JsonWriter& JsonWriter::Number(double value) { return Raw(absl::StrFormat("%.6g", value)); }
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
