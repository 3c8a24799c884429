// Runs commands natively and translated, for tests.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_TRANSLATED_FIXTURE_H_
#define HINDSIGHT_RECORDER_TRANSLATE_TRANSLATED_FIXTURE_H_

#include <cstdint>
#include <ostream>
#include <string>

namespace hindsight {

struct CommandResult {
  std::string out, err;
  int status = 0;  // as the shell has it

  bool operator==(const CommandResult&) const = default;
};
std::ostream& operator<<(std::ostream& stream, const CommandResult& result);

// By the shell, which is not translated itself.
CommandResult RunCommand(const std::string& command);

// Path of the tool, with `flags` and a space.
std::string Translated(const std::string& flags = "");

// What `--report` has said of a program that writes nothing to its standard error; 0: nothing.
uint64_t ReportedInstructions(const CommandResult& result);

// Fails unless `program` and its arguments, in the shell's words, do the same translated as
// natively.
void ExpectSameTranslated(const std::string& program, const std::string& flags = "");

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_TRANSLATED_FIXTURE_H_
