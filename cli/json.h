// Writes JSON text: objects, arrays, strings, integers, in the order called.
//
// Copyable. The caller keeps Begin and End matched. Strings that are not UTF-8 (paths, arguments)
// have each stray byte written as U+00XX, so the output is always valid JSON.

#ifndef HINDSIGHT_CLI_JSON_H_
#define HINDSIGHT_CLI_JSON_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace hindsight {

class JsonWriter {
 public:
  // Indents by two spaces per level; `compact` writes one line instead.
  explicit JsonWriter(bool compact = false) : compact_(compact) {}

  JsonWriter& BeginObject() { return Open('{'); }
  JsonWriter& EndObject() { return Close('}'); }
  JsonWriter& BeginArray() { return Open('['); }
  JsonWriter& EndArray() { return Close(']'); }
  // Names the next value of an object.
  JsonWriter& Key(absl::string_view name);

  JsonWriter& String(absl::string_view value);
  JsonWriter& Int(int64_t value);
  JsonWriter& Uint(uint64_t value);
  JsonWriter& Number(double value);  // finite
  JsonWriter& Bool(bool value);
  // As a string "0x1234": JSON numbers lose precision above 2^53.
  JsonWriter& Hex(uint64_t value);

  const std::string& text() const { return text_; }

 private:
  JsonWriter& Open(char bracket);
  JsonWriter& Close(char bracket);
  JsonWriter& Raw(absl::string_view value);
  void Separate();
  void NewLine();
  void AppendQuoted(absl::string_view value);

  bool compact_;
  int depth_ = 0;
  bool first_ = true;  // no value yet at this level
  bool after_key_ = false;
  std::string text_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_CLI_JSON_H_
