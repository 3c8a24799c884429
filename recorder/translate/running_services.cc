#include "recorder/translate/running_services.h"

#include <utility>

namespace hindsight {

ProcessService* RunningServices::Start(std::unique_ptr<ProcessService> service) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Running& running = running_.emplace_back();
  running.service = std::move(service);
  running.thread = std::thread([&running] {
    running.service->Run();
    running.done = true;
  });
  return running.service.get();
}

void RunningServices::JoinAll() {
  while (true) {
    std::thread thread;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      for (Running& running : running_) {
        if (!thread.joinable()) thread = std::move(running.thread);
      }
    }
    if (!thread.joinable()) return;
    thread.join();
  }
}

void RunningServices::StopAll() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Running& running : running_) running.service->RequestStop();
  }
  JoinAll();
}

void RunningServices::Reap() {
  std::list<Running> done;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto it = running_.begin(); it != running_.end();) {
      const auto at = it++;
      if (at->done) done.splice(done.end(), running_, at);
    }
  }
  for (Running& running : done) {
    if (running.thread.joinable()) running.thread.join();
  }
}

}  // namespace hindsight
