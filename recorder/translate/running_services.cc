#include "recorder/translate/running_services.h"

#include <utility>

namespace hindsight {

ProcessService* RunningServices::Start(std::unique_ptr<ProcessService> service) {
  const std::lock_guard<std::mutex> lock(mutex_);
  services_.push_back(std::move(service));
  ProcessService* started = services_.back().get();
  threads_.push_back(std::thread([started] { started->Run(); }));
  return started;
}

void RunningServices::JoinAll() {
  while (true) {
    std::thread thread;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (threads_.empty()) return;
      thread = std::move(threads_.front());
      threads_.pop_front();
    }
    thread.join();
  }
}

void RunningServices::StopAll() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& service : services_) service->RequestStop();
  }
  JoinAll();
}

}  // namespace hindsight
