#include "recorder/translate/stream/executed_pages.h"

#include <algorithm>

#include "base/check.h"

namespace hindsight {

void ExecutedPages::Publish(uint64_t address, absl::Span<const uint8_t> bytes, bool executed) {
  CHECK(bytes.size() == kPageBytes);
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto last = last_.find(address);
  if (last != last_.end()) {
    const ExecutedPage& page = pages_[last->second].page;
    if (page.executed >= executed && std::equal(bytes.begin(), bytes.end(), page.bytes.begin())) {
      return;
    }
    pages_[last->second].superseded = true;
  }
  last_[address] = pages_.size();
  Published& published = pages_.emplace_back();
  published.page.address = address;
  published.page.executed = executed;
  std::copy(bytes.begin(), bytes.end(), published.page.bytes.begin());
  size_.store(pages_.size(), std::memory_order_release);
}

void ExecutedPages::Withdraw(uint64_t start, uint64_t end, uint64_t time) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto it = last_.begin(); it != last_.end();) {
    const auto at = it++;
    if (at->first < start || at->first >= end) continue;
    pages_[at->second].valid_until = time;
    last_.erase(at);
  }
}

const ExecutedPage& ExecutedPages::page(size_t index) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return pages_[index].page;
}

bool ExecutedPages::IsValid(size_t index, uint64_t time) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return !pages_[index].superseded && time <= pages_[index].valid_until;
}

}  // namespace hindsight
