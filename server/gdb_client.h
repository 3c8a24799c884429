// Runs the real gdb against a session, for tests.

#ifndef HINDSIGHT_SERVER_GDB_CLIENT_H_
#define HINDSIGHT_SERVER_GDB_CLIENT_H_

#include <string>
#include <vector>

#include "server/target/target.h"

namespace hindsight {

struct GdbScript {
  std::vector<std::string> before;    // before connecting
  std::string remote = "remote";      // or extended-remote
  std::vector<std::string> commands;  // after it. gdb ends at the first that fails
};

// What gdb prints. `target` is borrowed, and served on a thread of its own meanwhile.
std::string RunGdb(Target* target, const GdbScript& script);

// The first of `texts` that does not occur in `output` after the one before it; empty if all do.
std::string FirstOutOfOrder(const std::string& output, const std::vector<std::string>& texts);

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_GDB_CLIENT_H_
