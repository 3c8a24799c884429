#include "recorder/snapshot/write_thread.h"

#include <algorithm>
#include <utility>

namespace hindsight {

WriteThread::WriteThread(SnapshotTrace* trace, uint64_t most_bytes)
    : trace_(trace), most_bytes_(most_bytes), thread_([this] { Loop(); }) {}

void WriteThread::Drain() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
    SetPace();
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool WriteThread::HasRoom(uint64_t resident_bytes) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return Fits(resident_bytes);
}

void WriteThread::WaitForRoom(uint64_t resident_bytes) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto fits = [&] { return Fits(resident_bytes); };
  if (fits()) return;
  awaited_ = true;
  SetPace();
  changed_.wait(lock, fits);
  awaited_ = false;
  SetPace();
}

void WriteThread::Post(Capture capture) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!status_.ok()) return;
    waiting_bytes_ += std::max<uint64_t>(capture.resident_bytes, 1);
    capture.pace = &pace_;
    waiting_.push_back(std::move(capture));
    SetPace();
  }
  changed_.notify_all();
}

absl::Status WriteThread::status() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return status_;
}

void WriteThread::SetPace() {
  pace_.Hurry(closing_ || awaited_ || waiting_bytes_ > most_bytes_ / 2);
}

void WriteThread::Loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return closing_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    SetPace();
    Capture capture = std::move(waiting_.front());
    waiting_.pop_front();
    const bool wanted = status_.ok();
    lock.unlock();
    absl::Status status;
    const uint64_t bytes = std::max<uint64_t>(capture.resident_bytes, 1);
    // The copy that is kept comes on top of those that wait.
    const bool keep = capture.resident_bytes <= most_bytes_ / 2;
    if (wanted) status = trace_->Write(std::move(capture), keep);
    capture.copy.reset();
    lock.lock();
    status_.Update(status);
    waiting_bytes_ -= bytes;
    changed_.notify_all();
  }
}

}  // namespace hindsight
