// When system calls that were made again are to be ended (see sync/disturbed_call.h).
//
// Copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_EMULATE_CALL_ENDS_H_
#define HINDSIGHT_RECORDER_EMULATE_CALL_ENDS_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <utility>

namespace hindsight {

class CallEnds {
 public:
  // The call of `thread` is to be ended at `ns`. It may return before that: the entry stays.
  void Add(pid_t thread, uint64_t ns) { ends_.insert({ns, thread}); }
  // A thread whose call is due, and takes it out; nullopt: none is.
  std::optional<pid_t> TakeDue(uint64_t now_ns) {
    if (ends_.empty() || ends_.begin()->first > now_ns) return std::nullopt;
    return ends_.extract(ends_.begin()).value().second;
  }
  // When the next one is due; nullopt: none is.
  std::optional<uint64_t> next_ns() const {
    return ends_.empty() ? std::nullopt : std::optional(ends_.begin()->first);
  }

 private:
  std::set<std::pair<uint64_t, pid_t>> ends_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_CALL_ENDS_H_
