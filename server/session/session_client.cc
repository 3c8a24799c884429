#include "server/session/session_client.h"

#include <sys/socket.h>
#include <sys/time.h>

#include "base/check.h"
#include "server/rsp/hex.h"

namespace hindsight {

SessionClient::SessionClient(Target* target, SessionLock lock) {
  int fds[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
  // A server that does not answer fails the test instead of hanging it.
  const timeval patience{.tv_sec = 20, .tv_usec = 0};
  CHECK(setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0);
  client_ = std::make_unique<Connection>(UniqueFd(fds[0]));
  server_ = std::make_unique<Connection>(UniqueFd(fds[1]));
  link_ = std::make_unique<rsp::Link>(client_.get());
  thread_ = std::thread([this, target, lock = std::move(lock)] {
    Session session(target, server_.get(), lock);
    const absl::StatusOr<SessionEnd> end = session.Serve();
    CHECK(end.ok());
    end_ = *end;
    // What the test did with the target before it closed the connection comes before what the end
    // of the session does with it. The thread sanitizer does not see that the end of a stream says
    // so.
    closing_.load();
    server_.reset();
  });
}

SessionClient::~SessionClient() { Close(); }

std::string SessionClient::Ask(absl::string_view packet) {
  Send(packet);
  return Receive();
}

void SessionClient::Send(absl::string_view packet) { CHECK(link_->Send(packet).ok()); }

std::string SessionClient::Receive() {
  while (true) {
    const absl::StatusOr<std::string> reply = link_->Receive();
    if (!reply.ok()) return reply.status().ToString();
    if (reply->size() < 3 || reply->front() != 'O') return *reply;
    const std::optional<std::string> text = rsp::HexDecode(reply->substr(1));
    if (!text.has_value()) return *reply;  // "OK"
    console_ += *text;
  }
}

void SessionClient::SendRaw(absl::string_view bytes) { CHECK(client_->Write(bytes).ok()); }

SessionEnd SessionClient::Close() {
  closing_.store(true);
  link_.reset();
  client_.reset();
  if (thread_.joinable()) thread_.join();
  return *end_;
}

}  // namespace hindsight
