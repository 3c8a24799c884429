// The value of --save-on: which ends of the program are worth its trace.

#ifndef HINDSIGHT_CLI_RUNNING_SAVE_OPTION_H_
#define HINDSIGHT_CLI_RUNNING_SAVE_OPTION_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace hindsight {

// "crash", "signal", "signal=SEGV,ABRT", "exit-status", "exit-status=1,3".
struct SaveValue {
  enum class On { kAll, kCrash, kSignal, kExitStatus };
  On on = On::kAll;
  std::vector<int> numbers;  // signals or exit statuses; none: all but exit status 0
  std::string text;

  // Whether the trace of a program that ended so (wait(2)) is kept.
  bool Keeps(int wait_status) const;
};
bool AbslParseFlag(absl::string_view text, SaveValue* value, std::string* error);
std::string AbslUnparseFlag(const SaveValue& value);

// Removes the trace in `directory` if `save` does not keep that of a program that ended so, and
// says it unless `quiet`.
void RemoveUnlessWanted(const SaveValue& save, const std::string& directory, int wait_status,
                        bool quiet);

}  // namespace hindsight

#endif  // HINDSIGHT_CLI_RUNNING_SAVE_OPTION_H_
