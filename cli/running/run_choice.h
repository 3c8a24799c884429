// Which program a command runs, or which process it attaches to, and where the trace goes.

#ifndef HINDSIGHT_CLI_RUNNING_RUN_CHOICE_H_
#define HINDSIGHT_CLI_RUNNING_RUN_CHOICE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "cli/options.h"
#include "cli/running/ring_option.h"
#include "cli/running/save_option.h"

namespace hindsight {

struct RunChoice {
  std::string directory;  // empty: one is to be chosen
  int32_t attach_pid = 0;
  std::vector<std::string> arguments;  // of the program, its name first; none with attach_pid
  RingValue ring;
  RingPoolValue ring_pool;
  SaveValue save;
};

// Adds --output. `default_name`: as the help shows the name that is chosen without it.
void AddOutputOption(Options* options, std::string* directory,
                     absl::string_view default_name = "PROG-N.hindsight");
// Adds --save-on. `more`: what else there is to say of it.
void AddSaveOption(Options* options, SaveValue* save, absl::string_view more = "");

// Why the parts of `choice` do not go together; empty: they do.
std::string CheckRun(const RunChoice& choice);

// Chooses a directory if none was given, named after the program. False, and a line on stderr, if
// it would be in one that does not exist: so that this is not taken for a program that is not
// found. Requires: CheckRun found nothing.
bool ChooseDirectory(RunChoice* choice);

}  // namespace hindsight

#endif  // HINDSIGHT_CLI_RUNNING_RUN_CHOICE_H_
