// Stop replies: where and why the program stopped.

#ifndef HINDSIGHT_SERVER_SESSION_STOP_REPLY_H_
#define HINDSIGHT_SERVER_SESSION_STOP_REPLY_H_

#include <string>

#include "absl/strings/string_view.h"
#include "server/session/session_state.h"
#include "server/target/target.h"

namespace hindsight {

// A `T` packet with one stop reason at most, the thread, and the registers that every client asks
// for next. The client takes the thread for selected from then on, and so does the session.
std::string StopReply(SessionState& state, const RunStop& event);
// The same with `reason` ("NAME:VALUE;" or empty) instead of what the event says.
std::string StopReply(SessionState& state, const RunStop& event, absl::string_view reason);

// The same for `?`: without reasons that mean "just now", which a client that has only connected
// would take for new ("No more reverse-execution history.").
std::string StatusReply(SessionState& state);

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_SESSION_STOP_REPLY_H_
