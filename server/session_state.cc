#include "server/session_state.h"

#include "absl/strings/str_cat.h"
#include "server/rsp/hex.h"

namespace hindsight {

void SessionState::Print(absl::string_view text) {
  constexpr size_t kBytesPerPacket = 4096;
  for (; !text.empty(); text.remove_prefix(std::min(text.size(), kBytesPerPacket))) {
    // If the client is gone, the next Receive says so.
    link->Send(absl::StrCat("O", rsp::HexEncode(text.substr(0, kBytesPerPacket)))).IgnoreError();
  }
}

void SessionState::LeaveDiversion() {
  target->EndDiversion();
  diversion_changed_registers = false;
}

}  // namespace hindsight
