// Which user is at the other end of a connection from this machine.

#ifndef HINDSIGHT_SERVER_PEER_USERS_H_
#define HINDSIGHT_SERVER_PEER_USERS_H_

#include <sys/types.h>

#include <optional>
#include <utility>

#include "base/unique_fd.h"

namespace hindsight {

// Works after the process was confined, if it was opened before. Movable. One thread at a time.
class PeerUsers {
 public:
  // Without /proc only the peers of Unix sockets are known.
  static PeerUsers Open();

  // The user whose process holds the other end of `socket`: from SO_PEERCRED for a Unix socket,
  // from the kernel's table of TCP connections otherwise. nullopt: unknown, such as a remote
  // peer's.
  std::optional<uid_t> UserOf(int socket) const;
  bool knows_tcp() const { return tcp_.valid() || tcp6_.valid(); }

 private:
  PeerUsers(UniqueFd tcp, UniqueFd tcp6) : tcp_(std::move(tcp)), tcp6_(std::move(tcp6)) {}

  UniqueFd tcp_;
  UniqueFd tcp6_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_PEER_USERS_H_
