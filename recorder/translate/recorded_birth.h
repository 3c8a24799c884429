// What the services of recorded processes tell the engine: memory that a recorded process writes
// into from now on.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_RECORDED_BIRTH_H_
#define HINDSIGHT_RECORDER_TRANSLATE_RECORDED_BIRTH_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "recorder/log/opened_modules.h"
#include "recorder/translate/injection.h"
#include "recorder/translate/memory_file.h"
#include "recorder/translate/stream/executed_pages.h"

namespace hindsight {

struct RecordedBirth {
  enum class Kind : uint8_t {
    kForked,    // a process, with memory of its own
    kSharing,   // one that has its parent's memory, and memory file, until it executes a program
    kExecuted,  // a process has executed a program
    kLost,      // ... which the agent is not in
    kNative,    // a process that has no memory file, and runs without the agent
  };
  Kind kind = Kind::kForked;
  pid_t process = 0;
  uint64_t ring = 0;  // of its first thread
  std::shared_ptr<MemoryFile> file;
  std::shared_ptr<ExecutedPages> code;
  // Of those that were made: by this thread of this process, in the call from this state.
  pid_t parent = 0;
  pid_t maker = 0;
  uint64_t maker_count = 0;
};

// How processes are recorded. Immutable; shared by services.
struct ServiceRecording {
  InjectionOptions injection;
  // Called before the process goes on; any host thread.
  std::function<void(RecordedBirth birth)> on_birth;
  // Called before a recorded process traces `process`, which may be recorded as well; any host
  // thread.
  std::function<void(pid_t process)> on_traced;
  std::shared_ptr<OpenedModules> modules;  // of the recording
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_RECORDED_BIRTH_H_
