// The gdb command file, server/hindsight_gdb.py, as text: for `hindsight replay`, which loads it,
// and for users who want to install it.

#ifndef HINDSIGHT_SERVER_GDB_COMMANDS_H_
#define HINDSIGHT_SERVER_GDB_COMMANDS_H_

#include "absl/strings/string_view.h"

namespace hindsight {

absl::string_view GdbCommands();

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_GDB_COMMANDS_H_
