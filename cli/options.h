// The options of one subcommand: parsing and the text of --help, from one table.
//
// Values are parsed and printed by Abseil's flag marshalling (so durations read "10s", booleans
// "--json" or "--nojson"), but belong to the command, not to the process: `hindsight record
// --help` shows what record takes and nothing else. Movable; variables named to Add() are borrowed
// and must outlive the Options.

#ifndef HINDSIGHT_CLI_OPTIONS_H_
#define HINDSIGHT_CLI_OPTIONS_H_

#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/flags/marshalling.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace hindsight {

class Options {
 public:
  // `usage` follows the program's name in the first line of the help; `description` is the
  // paragraph below it.
  Options(std::string usage, std::string description)
      : usage_(std::move(usage)), description_(std::move(description)) {}

  // Adds --name=PLACEHOLDER. The value `variable` has now is shown as the default.
  template <typename T>
  void Add(absl::string_view name, T* variable, absl::string_view placeholder,
           absl::string_view help) {
    AddEntry(Entry{.name = std::string(name),
                   .placeholder = std::string(placeholder),
                   .help = std::string(help),
                   .default_text = absl::UnparseFlag<T>(*variable),
                   .is_flag = std::is_same_v<T, bool>,
                   .parse = [variable](absl::string_view text, std::string* error) {
                     return absl::ParseFlag(text, variable, error);
                   }});
  }
  // The option added last may be given without a value: `--name` then means `--name=VALUE`.
  void ValueIfNoneGiven(absl::string_view value) { entries_.back().implied = std::string(value); }
  // `-letter VALUE` is another name for the option added last.
  void Alias(char letter) { entries_.back().letter = letter; }

  struct Parsed {
    bool help = false;                  // --help was given; nothing else is checked
    std::vector<std::string> operands;  // before "--"
    std::vector<std::string> rest;      // after "--"
    bool separator = false;             // there was a "--"
  };
  // Sets the variables. With `operands_end_options` the first operand and everything after it go
  // to `rest`, as if "--" stood before it. kInvalidArgument: a line for the user.
  absl::StatusOr<Parsed> Parse(absl::Span<const std::string> arguments,
                               bool operands_end_options) const;

  std::string Help() const;

 private:
  struct Entry {
    std::string name;
    std::string placeholder;
    std::string help;
    std::string default_text;
    std::string implied;  // not empty: a value is optional, and this one where there is none
    bool is_flag = false;
    char letter = 0;
    std::function<bool(absl::string_view, std::string*)> parse;
  };
  void AddEntry(Entry entry) { entries_.push_back(std::move(entry)); }
  const Entry* Find(absl::string_view name) const;
  const Entry* FindLetter(char letter) const;
  // Handles arguments[*index], which starts with '-', and moves *index past it.
  absl::Status ParseOption(absl::Span<const std::string> arguments, size_t* index) const;

  std::string usage_;
  std::string description_;
  std::vector<Entry> entries_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_CLI_OPTIONS_H_
