// What executes a program and records it into a session. The session is the same for all engines.
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
  // unrecorded, and a launched program's end is waited for. Errors while recording are kept
  // by the session. Returns an error if recording could not begin: a launched program is killed.
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
