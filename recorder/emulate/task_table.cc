#include "recorder/emulate/task_table.h"

#include <algorithm>
#include <utility>

#include "recorder/emulate/recorded_process.h"
#include "recorder/emulate/thread_engine.h"

namespace hindsight {

TaskTable::TaskTable() = default;
TaskTable::~TaskTable() = default;

RecordedProcess* TaskTable::AddProcess(std::unique_ptr<RecordedProcess> process) {
  return processes_.emplace_back(std::move(process)).get();
}

void TaskTable::RemoveEnded(const std::function<void(RecordedProcess*)>& ended) {
  for (auto it = processes_.begin(); it != processes_.end();) {
    RecordedProcess* const process = it->get();
    process->RemoveEnded();
    if (!process->ended() || !process->threads().empty()) {
      ++it;
      continue;
    }
    ended(process);
    it = processes_.erase(it);
  }
}

bool TaskTable::IsRecorded(pid_t process) const {
  return std::any_of(processes_.begin(), processes_.end(), [&](const auto& p) {
    return p->pid() == process && !p->ended() && !p->paused();
  });
}

RecordedProcess* TaskTable::FindPaused(pid_t process) const {
  for (const auto& p : processes_) {
    if (p->pid() == process && p->paused() && !p->ended()) return p.get();
  }
  return nullptr;
}

void TaskTable::LetGoOf(pid_t thread, const std::string& reason) {
  for (const auto& process : processes_) {
    if (process->Find(thread) != nullptr) process->LetGo(reason);
  }
}

bool TaskTable::WaitsForChild(pid_t thread) const {
  for (const auto& process : processes_) {
    if (process->Find(thread) == nullptr) continue;
    const auto& threads = process->threads();
    return std::any_of(threads.begin(), threads.end(),
                       [](const auto& engine) { return engine->WaitsForChild(); });
  }
  return false;
}

void TaskTable::AddThread(ThreadEngine* thread) { threads_[thread->thread()] = thread; }

ThreadEngine* TaskTable::Find(pid_t thread) const {
  const auto it = threads_.find(thread);
  return it == threads_.end() ? nullptr : it->second;
}

}  // namespace hindsight
