// Admits clients, one at a time, and answers the others with the reason for their refusal.
//
// A client is admitted if its first byte is one of the protocol's and it runs as this process's
// user; where there is a token, others are admitted on condition that they say the token first.
// While one is served, another is refused. If it connects again soon and the one served is still
// idle, it takes its place.

#ifndef HINDSIGHT_SERVER_DOOR_H_
#define HINDSIGHT_SERVER_DOOR_H_

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "server/peer_users.h"
#include "server/transport.h"

namespace hindsight {

struct DoorOptions {
  bool has_token = false;  // whether clients of other users are admitted on condition
  // How long the client served may take to disconnect before another one is refused.
  std::chrono::milliseconds grace{1000};
  std::chrono::milliseconds first_byte{10'000};  // how long a client may be silent
  std::chrono::milliseconds take_over{30'000};   // how soon it must connect again
  // Called, by a thread of the door's own, with lines for the user.
  std::function<void(const std::string&)> report = [](const std::string&) {};
};

struct Client {
  std::shared_ptr<Connection> connection;
  bool must_know_token = false;
};

// Borrows `listener`. Neither copyable nor movable. Next() is for one thread.
class Door {
 public:
  Door(Listener* listener, PeerUsers users, DoorOptions options);
  ~Door();
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  // Waits for the next client. It is served for as long as its connection lives. An error is one
  // of the listener.
  absl::StatusOr<Client> Next();

 private:
  using Clock = std::chrono::steady_clock;
  struct Visitor {
    std::shared_ptr<Connection> connection;
    bool trusted = false;  // of this user
    Clock::time_point since;
    std::string refusal;   // not empty: the answer to its first question
    bool refused = false;  // it was sent; the client has some time to read it
    bool gone = false;
  };

  void Loop();
  void AcceptVisitors();
  void Look(Visitor& visitor);
  void Decide(Visitor& visitor);
  void Refuse(Visitor& visitor, std::string reason);
  void SayFarewell(Visitor& visitor);
  void HandOver(Visitor& visitor);

  Listener* const listener_;
  const PeerUsers users_;
  const DoorOptions options_;
  UniqueFd wake_;
  std::vector<Visitor> visitors_;  // the thread's own
  std::optional<Clock::time_point> refused_at_;

  std::mutex mutex_;
  std::condition_variable came_;
  std::optional<absl::StatusOr<Client>> next_;  // guarded by mutex_, as are the next ones
  std::weak_ptr<Connection> served_;
  bool quit_ = false;
  std::thread thread_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_DOOR_H_
