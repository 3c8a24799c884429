// A client for tests: talks through the real codec, over a socket pair, to a Session on a thread.

#ifndef HINDSIGHT_SERVER_SESSION_SESSION_CLIENT_H_
#define HINDSIGHT_SERVER_SESSION_SESSION_CLIENT_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/strings/string_view.h"
#include "server/rsp/link.h"
#include "server/session/session.h"
#include "server/target/target.h"
#include "server/transport.h"

namespace hindsight {

class SessionClient {
 public:
  // `target` is borrowed; it belongs to the session's thread between Ask and its answer.
  explicit SessionClient(Target* target, SessionLock lock = {});
  ~SessionClient();

  // Sends a packet and returns the answer. Text for the console is appended to console().
  std::string Ask(absl::string_view packet);
  void Send(absl::string_view packet);
  std::string Receive();
  // Bytes outside of packets.
  void SendRaw(absl::string_view bytes);
  const std::string& console() const { return console_; }
  std::string TakeConsole() { return std::exchange(console_, {}); }
  // Closes the connection (if it is still open) and says how the session ended.
  SessionEnd Close();

 private:
  std::unique_ptr<Connection> client_;
  std::unique_ptr<Connection> server_;
  std::unique_ptr<rsp::Link> link_;
  std::optional<SessionEnd> end_;
  std::string console_;
  std::atomic<bool> closing_ = false;
  std::thread thread_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_SESSION_SESSION_CLIENT_H_
