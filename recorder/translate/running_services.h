// The services of a program's processes, each with a host thread of its own.
//
// Owns them. Not copyable, not movable. Any host thread.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_RUNNING_SERVICES_H_
#define HINDSIGHT_RECORDER_TRANSLATE_RUNNING_SERVICES_H_

#include <sys/types.h>

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

#include "recorder/translate/memory_file.h"
#include "recorder/translate/process_service.h"

namespace hindsight {

class RunningServices {
 public:
  RunningServices() = default;
  RunningServices(const RunningServices&) = delete;
  RunningServices& operator=(const RunningServices&) = delete;
  // Waits until all have ended, also those that begin meanwhile.
  ~RunningServices() { JoinAll(); }

  // Lets go of the service when it has ended: in its own thread, since a process's memory takes a
  // while to free.
  void Start(std::shared_ptr<ProcessService> service);
  void JoinAll();
  // The same, without waiting for the ends of their processes.
  void StopAll();
  // Another process is about to trace `process`: if that has a service, it is to go on without the
  // agent. Waits until it does; not if it is stopped, and two seconds at most.
  void LetGo(pid_t process);
  // Forgets those that have ended. One host thread, which also calls JoinAll and StopAll.
  void Reap();

 private:
  struct Running {
    std::shared_ptr<ProcessService> service;  // null: it has ended; guarded by mutex_
    std::atomic<bool> done = false;
    std::thread thread;
  };

  std::shared_ptr<MemoryFile> Find(pid_t process);

  std::mutex mutex_;
  std::list<Running> running_;  // guarded by mutex_, but for what is in it
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_RUNNING_SERVICES_H_
