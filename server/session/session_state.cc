#include "server/session/session_state.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/printable.h"
#include "server/rsp/hex.h"
#include "server/session/thread_id.h"

namespace hindsight {

void SessionState::Print(absl::string_view raw) {
  constexpr size_t kBytesPerPacket = 4096;
  // Much of it a program has written, and a terminal is at the other end.
  const std::string printable = PrintableLines(raw);
  absl::string_view text = printable;
  for (; !text.empty(); text.remove_prefix(std::min(text.size(), kBytesPerPacket))) {
    // If the client is gone, the next Receive says so.
    link->Send(absl::StrCat("O", rsp::HexEncode(text.substr(0, kBytesPerPacket)))).IgnoreError();
  }
}

ThreadRef SessionState::SelectedThread() {
  if (selection.general.tid > 0) {
    const std::vector<ThreadRef> threads = target->threads();
    if (FindThread(threads, selection.general)) return selection.general;
  }
  return target->current_thread();
}

bool SessionState::DivertedInACall() const {
  return target->DiversionRuns() &&
         std::any_of(diversion.threads.begin(), diversion.threads.end(),
                     [](const DivertedThread& thread) { return thread.changed; });
}

void SessionState::LeaveDiversion() {
  target->EndDiversion();
  diversion = {};
}

}  // namespace hindsight
