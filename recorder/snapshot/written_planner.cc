#include "recorder/snapshot/written_planner.h"

#include <utility>

namespace hindsight {
namespace {

// After the first capture, when nothing is known of the next.
constexpr std::chrono::milliseconds kFirstDelay(20);

}  // namespace

WrittenPlanner::WrittenPlanner(pid_t process, uint64_t most_bytes, BlockPool* pool)
    : process_(process), most_bytes_(most_bytes), pool_(pool) {
  if (most_bytes != 0) thread_ = std::thread([this] { Loop(); });
}

WrittenPlanner::~WrittenPlanner() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void WrittenPlanner::Begin() {
  if (most_bytes_ == 0) return;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const Clock::time_point now = Clock::now();
    due_ = now + (begun_.has_value() ? (now - *begun_) / 2 : Clock::duration(kFirstDelay));
    begun_ = now;
    ++turn_;
  }
  changed_.notify_all();
}

WrittenMemory WrittenPlanner::Take() {
  std::unique_lock<std::mutex> lock(mutex_);
  due_.reset();
  changed_.wait(lock, [&] { return !planning_; });
  return std::exchange(planned_, WrittenMemory());
}

void WrittenPlanner::Loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!over_) {
    if (!due_.has_value()) {
      changed_.wait(lock);
    } else if (const Clock::time_point due = *due_; Clock::now() < due) {
      changed_.wait_until(lock, due);
    } else {
      due_.reset();
      planning_ = true;
      const uint64_t turn = turn_;
      lock.unlock();
      WrittenMemory planned = WrittenMemory::Plan(process_, turn, most_bytes_, pool_);
      lock.lock();
      planned_ = std::move(planned);
      planning_ = false;
      changed_.notify_all();
    }
  }
}

}  // namespace hindsight
