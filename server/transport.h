// Where clients come from: TCP, Unix sockets, standard input and output.

#ifndef HINDSIGHT_SERVER_TRANSPORT_H_
#define HINDSIGHT_SERVER_TRANSPORT_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/unique_fd.h"
#include "server/rsp/link.h"

namespace hindsight {

// A connected client. Owns its file descriptors. One thread at a time.
class Connection final : public rsp::ByteStream {
 public:
  explicit Connection(UniqueFd socket) : input_(std::move(socket)), output_(input_.get()) {}
  Connection(UniqueFd input, UniqueFd output)
      : input_(std::move(input)), output_owner_(std::move(output)), output_(output_owner_.get()) {}
  // `target remote | hindsight serve --stdio`. Moves both descriptors away, so that nothing printed
  // by mistake can end up between packets: standard output becomes standard error. Also ignores
  // SIGPIPE, which a write to a closed pipe raises; for sockets a flag prevents it.
  static absl::StatusOr<std::unique_ptr<Connection>> FromStdio();

  absl::StatusOr<size_t> Read(absl::Span<char> out, bool wait) override;
  absl::Status Write(absl::string_view bytes) override;

  // The following may be called by other threads.
  int descriptor() const { return input_.get(); }
  // How long a read has been waiting for the client; 0 if none is.
  std::chrono::nanoseconds IdleFor() const;
  // Closes the connection, for the client and for readers and writers here.
  void Disconnect();
  // Whether the client is known to be one that may be served.
  bool proven() const { return proven_; }
  void SetProven() { proven_ = true; }

 private:
  UniqueFd input_;
  UniqueFd output_owner_;
  int output_;
  bool is_socket_ = true;                      // until a write says it is not
  std::atomic<int64_t> waiting_since_ns_ = 0;  // on the steady clock; 0: not waiting
  std::atomic<bool> proven_ = false;
};

// Waits for clients. Movable, not copyable. One thread at a time.
class Listener {
 public:
  // `host_port`: "HOST:PORT", ":PORT", "PORT", "[::1]:PORT" or "HOST:"; the host is 127.0.0.1 and
  // the port any free one unless given. Port 0 is any free one too.
  static absl::StatusOr<Listener> Tcp(absl::string_view host_port);
  // A socket that only this user may connect to. Replaces a socket that a server left when it
  // ended, nothing else. Removed again by the destructor.
  static absl::StatusOr<Listener> Unix(absl::string_view path);

  Listener(Listener&& other) noexcept
      : socket_(std::move(other.socket_)),
        address_(std::move(other.address_)),
        unix_path_(std::exchange(other.unix_path_, {})),
        is_local_(other.is_local_) {}
  Listener& operator=(Listener&&) = delete;
  ~Listener();

  // The argument of `target remote`: "127.0.0.1:34567", or the path.
  const std::string& address() const { return address_; }

  // kUnavailable: no client waits, and the descriptor does not block.
  absl::StatusOr<std::unique_ptr<Connection>> Accept();
  int descriptor() const { return socket_.get(); }
  // Whether only this machine can reach it.
  bool is_local() const { return is_local_; }

 private:
  Listener(UniqueFd socket, std::string address, std::string unix_path, bool is_local)
      : socket_(std::move(socket)),
        address_(std::move(address)),
        unix_path_(std::move(unix_path)),
        is_local_(is_local) {}

  UniqueFd socket_;
  std::string address_;
  std::string unix_path_;  // empty for TCP
  bool is_local_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_TRANSPORT_H_
