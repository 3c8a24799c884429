#include "server/peer_users.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace hindsight {
namespace {

constexpr absl::string_view kEstablished = "01";

// An address, an IPv4 one mapped into IPv6, and a port.
struct Endpoint {
  std::array<uint32_t, 4> words = {};  // as they are in memory
  uint16_t port = 0;

  bool operator==(const Endpoint& other) const {
    return words == other.words && port == other.port;
  }
};

uint32_t MappedMark() { return htonl(0xffff); }

std::optional<Endpoint> FromAddress(const sockaddr_storage& address) {
  Endpoint endpoint;
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    endpoint.words = {0, 0, MappedMark(), v4.sin_addr.s_addr};
    endpoint.port = ntohs(v4.sin_port);
    return endpoint;
  }
  if (address.ss_family != AF_INET6) return std::nullopt;
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  std::memcpy(endpoint.words.data(), &v6.sin6_addr, sizeof(endpoint.words));
  endpoint.port = ntohs(v6.sin6_port);
  return endpoint;
}

// "0100007F:1F90", as the kernel prints it: words of memory in hexadecimal.
std::optional<Endpoint> FromTable(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  if (parts.size() != 2 || (parts[0].size() != 8 && parts[0].size() != 32)) return std::nullopt;
  Endpoint endpoint;
  uint32_t port = 0;
  if (!absl::SimpleHexAtoi(parts[1], &port)) return std::nullopt;
  endpoint.port = static_cast<uint16_t>(port);
  const size_t words = parts[0].size() / 8;
  if (words == 1) endpoint.words = {0, 0, MappedMark(), 0};
  for (size_t i = 0; i < words; ++i) {
    if (!absl::SimpleHexAtoi(parts[0].substr(8 * i, 8), &endpoint.words[4 - words + i])) {
      return std::nullopt;
    }
  }
  return endpoint;
}

// The table, read from its beginning.
std::string ReadTable(int fd) {
  std::string text;
  if (fd < 0 || lseek(fd, 0, SEEK_SET) != 0) return text;
  char buffer[16384];
  for (ssize_t size; (size = read(fd, buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, static_cast<size_t>(size));
  }
  return text;
}

// The user of the socket with this end and that peer. The table has user 0 for connections that
// are being closed, so only established ones count.
std::optional<uid_t> FindUser(const std::string& table, const Endpoint& own, const Endpoint& peer) {
  for (const absl::string_view line : absl::StrSplit(table, '\n')) {
    // sl local remote state queues timer retransmits uid ...
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    uint32_t user = 0;
    if (words.size() < 8 || words[3] != kEstablished || FromTable(words[1]) != own ||
        FromTable(words[2]) != peer || !absl::SimpleAtoi(words[7], &user)) {
      continue;
    }
    return user;
  }
  return std::nullopt;
}

}  // namespace

PeerUsers PeerUsers::Open() {
  return PeerUsers(UniqueFd(open("/proc/net/tcp", O_RDONLY | O_CLOEXEC)),
                   UniqueFd(open("/proc/net/tcp6", O_RDONLY | O_CLOEXEC)));
}

std::optional<uid_t> PeerUsers::UserOf(int socket) const {
  sockaddr_storage own = {}, peer = {};
  socklen_t own_size = sizeof(own), peer_size = sizeof(peer);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_size) != 0) return std::nullopt;
  if (own.ss_family == AF_UNIX) {
    ucred credentials = {};
    socklen_t size = sizeof(credentials);
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return std::nullopt;
    return credentials.uid;
  }
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0) {
    return std::nullopt;
  }
  const std::optional<Endpoint> here = FromAddress(own), there = FromAddress(peer);
  if (!here || !there) return std::nullopt;
  for (const int table : {tcp_.get(), tcp6_.get()}) {
    const std::optional<uid_t> user = FindUser(ReadTable(table), *there, *here);
    if (user) return user;
  }
  return std::nullopt;
}

}  // namespace hindsight
