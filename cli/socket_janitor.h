// Removes the file of a Unix socket when its server has ended, in whatever way. It is a separate
// process, since a confined server cannot do that.

#ifndef HINDSIGHT_CLI_SOCKET_JANITOR_H_
#define HINDSIGHT_CLI_SOCKET_JANITOR_H_

#include <string>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace hindsight {

// Movable, not copyable.
class SocketJanitor {
 public:
  // Watches over the socket that is at `path` now: from then on even what ends the group of this
  // process leaves nothing. Requires: no other thread runs.
  static absl::StatusOr<SocketJanitor> Start(const std::string& path);

  // Has it removed, and waits until it is. May be called by another thread, and at any time once.
  void Finish() const;

 private:
  explicit SocketJanitor(UniqueFd line) : line_(std::move(line)) {}

  UniqueFd line_;  // its end is this process's end
};

}  // namespace hindsight

#endif  // HINDSIGHT_CLI_SOCKET_JANITOR_H_
