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

  // The service stays here until Reap or this is gone.
  ProcessService* Start(std::unique_ptr<ProcessService> service);
  void JoinAll();
  // The same, without waiting for the ends of their processes.
  void StopAll();
  // Another process is about to trace `process`: if that has a service, it is to go on without the
  // agent. Waits until it does; not if it is stopped, and two seconds at most.
  void LetGo(pid_t process);
  // Those that have ended are gone. One host thread, which also calls JoinAll and StopAll.
  void Reap();

 private:
  struct Running {
    std::unique_ptr<ProcessService> service;
    std::atomic<bool> done = false;
    std::thread thread;
  };

  std::shared_ptr<MemoryFile> Find(pid_t process);

  std::mutex mutex_;
  std::list<Running> running_;  // guarded by mutex_, but for what is in it
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_RUNNING_SERVICES_H_
