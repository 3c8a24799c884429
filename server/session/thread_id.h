// Thread ids as packets write them: "p<pid>.<tid>" with multiprocess, "<tid>" without.

#ifndef HINDSIGHT_SERVER_SESSION_THREAD_ID_H_
#define HINDSIGHT_SERVER_SESSION_THREAD_ID_H_

#include <optional>
#include <string>
#include <vector>

#include "server/rsp/scanner.h"
#include "server/target/target.h"

namespace hindsight {

inline constexpr int32_t kAllThreads = -1;
inline constexpr int32_t kAnyThread = 0;

// The thread id that comes next; pid is 0 if it names none. tid or pid may be kAllThreads or
// kAnyThread. nullopt if it is malformed.
std::optional<ThreadRef> ParseThreadId(rsp::Scanner* scanner);

std::string ThreadId(ThreadRef thread, bool multiprocess);

// The thread among `threads` that `id` names exactly; nullopt if it is gone or means several.
std::optional<ThreadRef> FindThread(const std::vector<ThreadRef>& threads, ThreadRef id);

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_SESSION_THREAD_ID_H_
