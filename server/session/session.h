// One client's session with a recorded process: bytes -> packet -> handler -> reply -> bytes.
//
// Borrows `target` and `stream`, which must outlive it. The position survives in the target when a
// session ends; breakpoints and everything else the client said do not. Neither copyable nor
// movable. Serve runs on one thread; a second one, private to the session, listens for interrupts
// while that one is busy.

#ifndef HINDSIGHT_SERVER_SESSION_SESSION_H_
#define HINDSIGHT_SERVER_SESSION_SESSION_H_

#include <atomic>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/rsp/link.h"
#include "server/session/interrupt_watch.h"
#include "server/session/packet_table.h"
#include "server/session/session_state.h"
#include "server/target/target.h"

namespace hindsight {

// What a client must say, as `monitor token TOKEN`, before it is served anything.
struct SessionLock {
  std::string token;                     // empty: nothing
  std::function<void()> opened = [] {};  // called when it was said
};

class Session {
 public:
  Session(Target* target, rsp::ByteStream* stream, SessionLock lock = {});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Answers packets until the session ends. An error is one of reading or writing the stream.
  absl::StatusOr<SessionEnd> Serve();

 private:
  std::string Answer(absl::string_view packet);
  std::string AnswerLocked(absl::string_view packet);
  std::string TryToken(absl::string_view hex_command);

  rsp::Link link_;
  std::atomic<bool> interrupt_ = false;
  InterruptWatch watch_;
  PacketTable packets_;
  SessionState state_;
  SessionLock lock_;
  int wrong_tokens_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_SESSION_SESSION_H_
