#include "tracefmt/storage/recent_files.h"

#include <algorithm>

namespace hindsight {

RecentFiles::File RecentFiles::Find(absl::string_view name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = std::find_if(files_.begin(), files_.end(),
                                  [=](const auto& file) { return file.first == name; });
  if (found == files_.end()) return nullptr;
  files_.splice(files_.end(), files_, found);
  return found->second;
}

void RecentFiles::Add(std::string name, File file) {
  Forget(name);
  const std::lock_guard<std::mutex> lock(mutex_);
  files_.emplace_back(std::move(name), std::move(file));
  if (files_.size() > kMost) files_.pop_front();
}

void RecentFiles::Forget(absl::string_view name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  files_.remove_if([=](const auto& file) { return file.first == name; });
}

bool RecentFiles::ForgetAll() {
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool any = !files_.empty();
  files_.clear();
  return any;
}

}  // namespace hindsight
