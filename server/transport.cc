#include "server/transport.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace hindsight {
namespace {

absl::Status ErrnoStatus(absl::string_view what) { return absl::ErrnoToStatus(errno, what); }

absl::Status Closed() { return absl::UnavailableError("the client has closed the connection"); }

// Clients that may wait to be accepted.
constexpr int kQueue = 16;

struct HostPort {
  std::string host = "127.0.0.1";
  std::string port = "0";
};

absl::StatusOr<HostPort> ParseHostPort(absl::string_view text) {
  HostPort parsed;
  absl::string_view host, port = text;
  if (const size_t colon = text.rfind(':'); colon != absl::string_view::npos) {
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  if (!host.empty()) parsed.host = std::string(host);
  if (!port.empty()) parsed.port = std::string(port);
  int number = 0;
  if (!absl::SimpleAtoi(parsed.port, &number) || number < 0 || number > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot listen on \"", text, "\": expected HOST:PORT"));
  }
  return parsed;
}

std::string BoundAddress(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) == 0) {
    getnameinfo(reinterpret_cast<sockaddr*>(&address), length, host, sizeof(host), port,
                sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
  }
  return absl::StrFormat(address.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

bool IsLoopback(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return ntohl(v4.sin_addr.s_addr) >> 24 == 127;
  }
  if (address.sa_family != AF_INET6) return false;
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

// True if `path` is a socket that no process listens on any more.
bool IsAbandonedSocket(const sockaddr_un& address) {
  struct stat info {};
  if (lstat(address.sun_path, &info) != 0 || !S_ISSOCK(info.st_mode)) return false;
  const UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 &&
         errno == ECONNREFUSED;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Connection>> Connection::FromStdio() {
  UniqueFd input(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  UniqueFd output(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
  if (!input.valid() || !output.valid()) return ErrnoStatus("standard input and output");
  const UniqueFd nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!nothing.valid() || dup2(nothing.get(), STDIN_FILENO) < 0 ||
      dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
    return ErrnoStatus("standard input and output");
  }
  signal(SIGPIPE, SIG_IGN);
  return std::make_unique<Connection>(std::move(input), std::move(output));
}

absl::StatusOr<size_t> Connection::Read(absl::Span<char> out, bool wait) {
  while (true) {
    if (!wait) {
      pollfd ready{.fd = input_.get(), .events = POLLIN, .revents = 0};
      if (poll(&ready, 1, 0) <= 0) return size_t{0};
    }
    waiting_since_ns_ = wait ? std::chrono::steady_clock::now().time_since_epoch().count() : 0;
    const ssize_t size = read(input_.get(), out.data(), out.size());
    waiting_since_ns_ = 0;
    if (size > 0) return static_cast<size_t>(size);
    if (size == 0 || errno == ECONNRESET) return Closed();
    // Only if the owner of the socket has set a timeout; not the end of the connection.
    if (errno == EAGAIN) return absl::DeadlineExceededError("nothing came from the client");
    if (errno != EINTR) return ErrnoStatus("reading from the client");
  }
}

std::chrono::nanoseconds Connection::IdleFor() const {
  const int64_t since = waiting_since_ns_;
  if (since == 0) return std::chrono::nanoseconds(0);
  return std::chrono::steady_clock::now().time_since_epoch() - std::chrono::nanoseconds(since);
}

void Connection::Disconnect() { shutdown(input_.get(), SHUT_RDWR); }

absl::Status Connection::Write(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t size = is_socket_ ? send(output_, bytes.data(), bytes.size(), MSG_NOSIGNAL)
                                    : write(output_, bytes.data(), bytes.size());
    if (size >= 0) {
      bytes.remove_prefix(static_cast<size_t>(size));
    } else if (errno == ENOTSOCK && is_socket_) {
      is_socket_ = false;
    } else if (errno == EPIPE || errno == ECONNRESET) {
      return Closed();
    } else if (errno != EINTR) {
      return ErrnoStatus("writing to the client");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Listener> Listener::Tcp(absl::string_view host_port) {
  ASSIGN_OR_RETURN(const HostPort parsed, ParseHostPort(host_port));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(parsed.host.c_str(), parsed.port.c_str(), &hints, &found);
      error != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot listen on \"", host_port, "\": ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);

  UniqueFd fd(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  // Without this a server restarted on the same port has to wait a minute for the old connections.
  if (!fd.valid() || setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      bind(fd.get(), found->ai_addr, found->ai_addrlen) != 0 || listen(fd.get(), kQueue) != 0) {
    return ErrnoStatus(absl::StrCat("cannot listen on \"", host_port, "\""));
  }
  std::string address = BoundAddress(fd.get());
  const bool is_local = IsLoopback(*found->ai_addr);
  return Listener(std::move(fd), std::move(address), "", is_local);
}

absl::StatusOr<Listener> Listener::Unix(absl::string_view path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", path, "\" does not fit into a Unix socket's address"));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  if (IsAbandonedSocket(address)) unlink(address.sun_path);
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  // bind() creates the file with the socket's own mode, so it is never open to others.
  if (!fd.valid() || fchmod(fd.get(), 0600) != 0 ||
      bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(fd.get(), kQueue) != 0) {
    return ErrnoStatus(absl::StrCat("cannot listen on \"", path, "\""));
  }
  return Listener(std::move(fd), std::string(path), std::string(path), /*is_local=*/true);
}

Listener::~Listener() {
  if (!unix_path_.empty()) unlink(unix_path_.c_str());
}

absl::StatusOr<std::unique_ptr<Connection>> Listener::Accept() {
  while (true) {
    UniqueFd fd(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (fd.valid()) {
      // Packets are small and each waits for its answer: Nagle would add 40 ms to every one. Fails
      // on a Unix socket, which does not need it.
      const int on = 1;
      setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
      return std::make_unique<Connection>(std::move(fd));
    }
    if (errno == EAGAIN) return absl::UnavailableError("no client waits");
    if (errno != EINTR && errno != ECONNABORTED) return ErrnoStatus("waiting for a client");
  }
}

}  // namespace hindsight
