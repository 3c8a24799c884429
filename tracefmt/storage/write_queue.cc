#include "tracefmt/storage/write_queue.h"

#include <csignal>
#include <utility>

#include "base/status_macros.h"

namespace hindsight {

WriteQueue::WriteQueue(size_t capacity) : capacity_(capacity) {
  // The thread inherits a full mask: the recorder's signals are for the recorder's thread, and
  // SIGXFSZ at a file size limit becomes the error EFBIG of the write.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { Loop(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

WriteQueue::~WriteQueue() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

absl::Status WriteQueue::Post(Job job) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return jobs_.size() < capacity_ || !status_.ok(); });
  if (!status_.ok()) return status_;
  jobs_.push_back({std::move(job)});
  ++posted_;
  changed_.notify_all();
  return absl::OkStatus();
}

absl::Status WriteQueue::Drain() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this, last = posted_] { return done_ >= last; });
  return status_;
}

absl::Status WriteQueue::Run(Job job) {
  RETURN_IF_ERROR(Post(std::move(job)));
  return Drain();
}

absl::Status WriteQueue::RunAnyway(const Job& job) {
  Drain().IgnoreError();
  absl::Status result;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto run = [&job, &result] {
      result = job();
      return absl::OkStatus();
    };
    jobs_.push_back({run, /*anyway=*/true});
    ++posted_;
  }
  changed_.notify_all();
  Drain().IgnoreError();
  return result;
}

void WriteQueue::Loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !jobs_.empty() || closing_; });
    if (jobs_.empty()) return;
    Job job = std::move(jobs_.front().job);
    jobs_.pop_front();
    lock.unlock();
    absl::Status status = job();
    job = nullptr;  // frees what it holds outside the lock
    lock.lock();
    ++done_;
    if (!status.ok() && status_.ok()) {
      status_ = std::move(status);
      // Those that are to run anyway stay.
      std::erase_if(jobs_, [](const Entry& entry) { return !entry.anyway; });
      done_ = posted_ - jobs_.size();
    }
    changed_.notify_all();
  }
}

}  // namespace hindsight
