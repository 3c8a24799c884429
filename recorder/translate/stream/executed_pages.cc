#include "recorder/translate/stream/executed_pages.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace hindsight {

std::shared_ptr<const ExecutedPage> ExecutedPagePool::Get(uint64_t address,
                                                          absl::Span<const uint8_t> bytes,
                                                          bool executed) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (pages_.size() >= kMost) pages_.clear();
  std::shared_ptr<const ExecutedPage>& known = pages_[address];
  if (known != nullptr && known->executed == executed &&
      std::equal(bytes.begin(), bytes.end(), known->bytes.begin())) {
    return known;
  }
  const auto page = std::make_shared<ExecutedPage>();
  page->address = address;
  page->executed = executed;
  std::copy(bytes.begin(), bytes.end(), page->bytes.begin());
  known = page;
  return page;
}

void ExecutedPages::Publish(uint64_t address, absl::Span<const uint8_t> bytes, bool executed) {
  CHECK(bytes.size() == kPageBytes);
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto last = last_.find(address);
  if (last != last_.end()) {
    Published& before = pages_.at(last->second);
    if (before.page->executed >= executed &&
        std::equal(bytes.begin(), bytes.end(), before.page->bytes.begin())) {
      return;
    }
    before.superseded = true;
  }
  Append(pool_->Get(address, bytes, executed));
}

void ExecutedPages::Append(std::shared_ptr<const ExecutedPage> page) {
  const size_t index = size();
  Published& published = pages_[index];
  published.page = std::move(page);
  published.index = index;
  last_[published.page->address] = index;
  GiveUpBefore(published);
  size_.store(index + 1, std::memory_order_release);
}

void ExecutedPages::Inherit(const ExecutedPages& maker,
                            absl::FunctionRef<bool(uint64_t address)> leave_out) {
  Need(maker.needed());
  const Batch batch = maker.Since(0);
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const Published& published : batch.pages) {
    const bool gone = published.superseded || published.valid_until != kForever;
    if (!gone && !leave_out(published.page->address)) Append(published.page);
  }
}

// What is only fetched gives way to what the view has: it does not take the place of what was
// executed.
void ExecutedPages::GiveUpBefore(const Published& published) {
  std::vector<size_t>& kept = kept_[published.page->address];
  std::erase_if(kept, [&](size_t index) {
    const auto earlier = pages_.find(index);
    if (earlier->second.page->executed > published.page->executed) return false;
    pages_.erase(earlier);
    return true;
  });
  kept.push_back(published.index);
}

void ExecutedPages::Withdraw(uint64_t start, uint64_t end, uint64_t time) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto it = last_.begin(); it != last_.end();) {
    const auto at = it++;
    if (at->first < start || at->first >= end) continue;
    pages_.at(at->second).valid_until = time;
    last_.erase(at);
  }
}

ExecutedPages::Batch ExecutedPages::Since(size_t index) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  Batch batch = {.pages = {}, .end = size()};
  for (auto it = pages_.lower_bound(index); it != pages_.end(); ++it) {
    batch.pages.push_back(it->second);
  }
  return batch;
}

std::shared_ptr<const ExecutedPage> ExecutedPages::Find(uint64_t address) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto last = last_.find(address);
  return last == last_.end() ? nullptr : pages_.at(last->second).page;
}

size_t ExecutedPages::kept() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return pages_.size();
}

}  // namespace hindsight
