// What records a program into a session: the seam between what a recording is and how instructions
// are executed meanwhile.
//
// Not copyable, not movable. One host thread, the tracer of the program.

#ifndef HINDSIGHT_RECORDER_SESSION_ENGINE_H_
#define HINDSIGHT_RECORDER_SESSION_ENGINE_H_

#include <sys/types.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "recorder/ptrace/thread_stop.h"

namespace hindsight {

class Engine {
 public:
  Engine() = default;
  virtual ~Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Records `process`, all of whose `threads` are traced and stopped, and what it makes, into the
  // engine's session until the last process has ended or the session wants an end: then all run on
  // alone, and the program's end is waited for if it was launched. Errors while recording are kept
  // by the session. An error returned: a launched program could not be begun with, and is killed.
  //
  // Requires: called once.
  virtual absl::Status Record(pid_t process, absl::Span<const StoppedThread> threads) = 0;

  // Executed so far by recorded processes that have not been closed in the session.
  virtual uint64_t open_instructions() const = 0;
  // Processes of the recording that have not ended, recorded or not.
  virtual uint64_t living_processes() const = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SESSION_ENGINE_H_
