#include "tracefmt/storage/write_queue.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "base/status_macros.h"

namespace hindsight {

WriteQueue::WriteQueue(size_t capacity, const WriterOptions& options) : capacity_(capacity) {
  // The threads inherit a full mask: the recorder's signals are for the recorder's thread, and
  // SIGXFSZ at a file size limit becomes the error EFBIG of the write.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (int i = 0; i < options.threads; ++i) {
    threads_.emplace_back([this, i, nice = options.nice] { Loop(static_cast<size_t>(i), nice); });
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

WriteQueue::~WriteQueue() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

absl::Status WriteQueue::Post(Job job) { return Post(nullptr, std::move(job)); }

absl::Status WriteQueue::Post(Preparation prepare, Job job) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return jobs_.size() < capacity_ || !status_.ok(); });
  if (!status_.ok()) return status_;
  const bool ready = prepare == nullptr;
  jobs_.push_back({.prepare = std::move(prepare), .job = std::move(job), .ready = ready});
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
    jobs_.push_back({.prepare = nullptr, .job = run, .anyway = true});
    ++posted_;
  }
  changed_.notify_all();
  Drain().IgnoreError();
  return result;
}

void WriteQueue::Loop(size_t thread, int nice) {
  // Of this thread alone. Only a wish.
  if (nice != 0) (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), nice);
  std::unique_lock<std::mutex> lock(mutex_);
  while (!jobs_.empty() || !closing_) {
    if (!Write(&lock) && !Prepare(thread, &lock)) changed_.wait(lock);
  }
}

bool WriteQueue::Write(std::unique_lock<std::mutex>* lock) {
  if (writing_ || jobs_.empty() || !jobs_.front().ready) return false;
  Job job = std::move(jobs_.front().job);
  jobs_.pop_front();
  writing_ = true;
  lock->unlock();
  absl::Status status = job();
  if (status.ok() && after_each_) status = after_each_();
  job = nullptr;  // frees what it holds outside the lock
  lock->lock();
  writing_ = false;
  ++done_;
  if (!status.ok() && status_.ok()) {
    status_ = std::move(status);
    DropJobs();
  }
  changed_.notify_all();
  return true;
}

// Those that are to run anyway stay.
void WriteQueue::DropJobs() {
  for (Entry& entry : jobs_) {
    if (entry.anyway) continue;
    if (entry.prepare != nullptr) entry.ready = true;
    entry.prepare = nullptr;
    entry.job = [] { return absl::OkStatus(); };
  }
}

bool WriteQueue::Prepare(size_t thread, std::unique_lock<std::mutex>* lock) {
  const auto next = std::find_if(jobs_.begin(), jobs_.end(),
                                 [](const Entry& entry) { return entry.prepare != nullptr; });
  if (next == jobs_.end()) return false;
  const Preparation prepare = std::exchange(next->prepare, nullptr);
  lock->unlock();
  absl::Status status = prepare(thread);
  lock->lock();
  if (!status.ok()) next->job = [status = std::move(status)] { return status; };
  next->ready = true;
  changed_.notify_all();
  return true;
}

}  // namespace hindsight
