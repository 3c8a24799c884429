// A client's writes to registers and memory, such as those of a function call from gdb: they go to
// a throw-away copy of the program.
//
// A diversion begins with the first byte of memory or register written. When all registers have
// their old values again, which is how gdb finishes a call, the copy is set aside: the recording
// shows again, and the next write continues in the same copy. It is thrown away when the program
// moves, by `monitor discard` and at the end of the session.
//
// Of several threads the one whose registers were written last runs; when its call is done, the
// one before it does.
//
// Borrows `state`; meant to live for one packet. Wrap every write into one.

#ifndef HINDSIGHT_SERVER_SESSION_DIVERSION_H_
#define HINDSIGHT_SERVER_SESSION_DIVERSION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/session/session_state.h"

namespace hindsight {

class Diversion {
 public:
  // Takes up the copy that was set aside. Notes the registers if no diversion is active yet.
  explicit Diversion(SessionState* state);
  // Sets the copy aside if the registers are back to what they were.
  ~Diversion();
  Diversion(const Diversion&) = delete;
  Diversion& operator=(const Diversion&) = delete;

  absl::Status WriteRegister(int number, absl::string_view bytes);
  absl::Status WriteMemory(uint64_t address, absl::string_view bytes);

 private:
  // Makes `thread` the one that runs.
  void Choose(ThreadRef thread);

  SessionState* state_;
  bool resumed_ = false;       // by this packet
  bool wrote_memory_ = false;  // with this packet
};

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_SESSION_DIVERSION_H_
