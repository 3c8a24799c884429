#include "recorder/snapshot/points/point_thread.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "absl/time/time.h"

namespace hindsight {
namespace {

// How soon the thread notices that it is to end.
constexpr absl::Duration kLongestWait = absl::Milliseconds(100);

}  // namespace

PointThread::PointThread(PointListener* listener)
    : listener_(listener),
      ready_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this] { Loop(); }) {}

PointThread::~PointThread() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::optional<Point> PointThread::Take() {
  eventfd_t count;
  eventfd_read(ready_.get(), &count);
  std::lock_guard<std::mutex> lock(mutex_);
  return point_;
}

void PointThread::Done() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    point_.reset();
  }
  changed_.notify_all();
}

void PointThread::Loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!closing_) {
    lock.unlock();
    absl::StatusOr<std::optional<Point>> heard = listener_->Wait(kLongestWait);
    lock.lock();
    if (!heard.ok()) return;  // the program has spoilt the file: it has no points any more
    if (!heard->has_value()) continue;
    point_ = **heard;
    eventfd_write(ready_.get(), 1);
    changed_.wait(lock, [this] { return closing_ || !point_.has_value(); });
    lock.unlock();
    listener_->Answer(**heard);
    lock.lock();
  }
}

}  // namespace hindsight
