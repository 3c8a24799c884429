// Tells a client why the program stopped.

#ifndef HINDSIGHT_SERVER_STOP_REPLY_H_
#define HINDSIGHT_SERVER_STOP_REPLY_H_

#include <string>

#include "server/session_state.h"
#include "server/target.h"

namespace hindsight {

// A `T` packet with one stop reason at most, the thread, and the registers that every client asks
// for next.
std::string StopReply(SessionState& state, const StopEvent& event);

// The same for `?`: without reasons that mean "just now", which a client that has only connected
// would take for news ("No more reverse-execution history.").
std::string StatusReply(SessionState& state);

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_STOP_REPLY_H_
