// Installs the Python file that adds the `hindsight` commands to a gdb that the user starts.

#ifndef HINDSIGHT_CLI_GDB_COMMAND_FILE_H_
#define HINDSIGHT_CLI_GDB_COMMAND_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace hindsight {

// Writes it to $XDG_DATA_HOME/hindsight, or ~/.local/share/hindsight, unless it is up to date.
// Returns its path. An error: neither variable is set, or it cannot be written.
absl::StatusOr<std::string> InstallGdbCommands();

}  // namespace hindsight

#endif  // HINDSIGHT_CLI_GDB_COMMAND_FILE_H_
