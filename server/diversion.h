// Writes to the program, as calling a function from gdb makes them: into a throw-away copy.
//
// A diversion begins with the first byte of memory or register written and ends when all registers
// are again what they were at that moment, which is how gdb finishes a call. It also ends with a
// jump, with `monitor discard` and with the session.
//
// Borrows `state`; meant to live for one packet. Wrap every write into one.

#ifndef HINDSIGHT_SERVER_DIVERSION_H_
#define HINDSIGHT_SERVER_DIVERSION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/session_state.h"

namespace hindsight {

class Diversion {
 public:
  // Notes the registers if no diversion is active yet.
  explicit Diversion(SessionState* state);
  // Ends the diversion if the registers are back to what they were.
  ~Diversion();
  Diversion(const Diversion&) = delete;
  Diversion& operator=(const Diversion&) = delete;

  absl::Status WriteRegister(int number, absl::string_view bytes);
  absl::Status WriteMemory(uint64_t address, absl::string_view bytes);

 private:
  SessionState* state_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_DIVERSION_H_
