#include "tracefmt/storage/late_sync.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

namespace hindsight {
namespace {

// More open files than this are not kept waiting.
constexpr size_t kMostFiles = 128;

}  // namespace

LateSync::LateSync(std::function<void(const std::vector<UniqueFd>&)> sync)
    : sync_(std::move(sync)), thread_([this] { Loop(); }) {}

LateSync::~LateSync() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void LateSync::Add(UniqueFd file) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return files_.size() < kMostFiles; });
  files_.push_back(std::move(file));
  changed_.notify_all();
}

// The first pass has the file system find places for all: one commit of its journal then does for
// all.
void LateSync::SyncAll(const std::vector<UniqueFd>& files) {
  for (const UniqueFd& file : files) {
    (void)!sync_file_range(file.get(), 0, 0, SYNC_FILE_RANGE_WRITE);
  }
  for (const UniqueFd& file : files) (void)!fdatasync(file.get());
}

void LateSync::Loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return closing_ || !files_.empty(); });
    if (files_.empty()) return;
    std::vector<UniqueFd> batch;
    batch.swap(files_);
    changed_.notify_all();
    lock.unlock();
    sync_(batch);
    batch.clear();
    lock.lock();
  }
}

}  // namespace hindsight
