#include "keyframes/state/schedule.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "keyframes/state/first_after.h"

namespace hindsight {
namespace {

void Warn(std::vector<std::string>* warnings, std::string text) {
  if (warnings != nullptr) warnings->push_back(std::move(text));
}

using Ranges = absl::flat_hash_map<int32_t, Schedule::ThreadRange>;

// The slices in the trace, ordered by their numbers.
std::vector<Slice> FromEvents(const Ranges& ranges, absl::Span<const ProcessEvent* const> events,
                              std::vector<std::string>* warnings) {
  std::vector<Slice> slices;
  uint64_t unknown = 0, disordered = 0;
  for (const ProcessEvent* event : events) {
    if (!ranges.contains(event->thread)) {
      ++unknown;
      continue;
    }
    if (!slices.empty() && event->sequence <= slices.back().sequence) ++disordered;
    slices.push_back({.count = event->count, .sequence = event->sequence, .thread = event->thread});
  }
  std::stable_sort(slices.begin(), slices.end(),
                   [](const Slice& a, const Slice& b) { return a.sequence < b.sequence; });
  if (unknown > 0) {
    Warn(warnings, absl::StrCat(unknown, " slices are of threads that the trace does not have"));
  }
  if (disordered > 0) {
    Warn(warnings, absl::StrCat(disordered, " slices are not in the order of their numbers"));
  }
  return slices;
}

// Slices for what threads did before their first one, merged in by number.
void AddBeginnings(absl::Span<const Schedule::ThreadRange> threads, std::vector<Slice>* slices) {
  absl::flat_hash_map<int32_t, Slice> firsts;
  for (const Slice& slice : *slices) firsts.emplace(slice.thread, slice);
  std::vector<Slice> beginnings;
  for (size_t i = 0; i < threads.size(); ++i) {
    auto it = firsts.find(threads[i].thread);
    if (it != firsts.end() && it->second.count <= threads[i].begin_count) continue;
    uint64_t sequence = i == 0 ? 0 : threads[i].first_sequence;
    if (it != firsts.end()) sequence = std::min(sequence, it->second.sequence);
    beginnings.push_back(
        {.count = threads[i].begin_count, .sequence = sequence, .thread = threads[i].thread});
  }
  slices->insert(slices->begin(), beginnings.begin(), beginnings.end());
  std::stable_sort(slices->begin(), slices->end(),
                   [](const Slice& a, const Slice& b) { return a.sequence < b.sequence; });
}

}  // namespace

Schedule Schedule::Create(absl::Span<const ThreadRange> threads,
                          absl::Span<const ProcessEvent* const> slices,
                          std::vector<std::string>* warnings) {
  CHECK(!threads.empty());
  Ranges ranges;
  for (const ThreadRange& range : threads) ranges.emplace(range.thread, range);
  Schedule schedule;
  schedule.slices_ = FromEvents(ranges, slices, warnings);
  AddBeginnings(threads, &schedule.slices_);
  for (size_t i = 0; i < schedule.slices_.size(); ++i) {
    schedule.by_thread_[schedule.slices_[i].thread].push_back(static_cast<uint32_t>(i));
  }
  for (const ThreadRange& range : threads) {
    if (!range.begins_late) continue;
    std::vector<uint32_t>& indices = schedule.by_thread_[range.thread];
    const auto first = std::partition_point(indices.begin(), indices.end(), [&](uint32_t index) {
      return schedule.slices_[index].count <= range.begin_count;
    });
    if (first == indices.begin()) continue;
    indices.erase(indices.begin(), std::prev(first));
    schedule.slices_[indices.front()].count = range.begin_count;
  }
  // Each slice goes on to where the thread's next one begins.
  uint64_t backward = 0;
  for (auto& [thread, indices] : schedule.by_thread_) {
    const ThreadRange& range = ranges.at(thread);
    uint64_t least = range.begin_count;
    for (uint32_t index : indices) {
      Slice& slice = schedule.slices_[index];
      if (slice.count < least) ++backward;
      least = slice.count = std::clamp(slice.count, least, range.end_count);
    }
    for (size_t i = 0; i < indices.size(); ++i) {
      Slice& slice = schedule.slices_[indices[i]];
      const bool last = i + 1 == indices.size();
      slice.length =
          (last ? range.end_count : schedule.slices_[indices[i + 1]].count) - slice.count;
    }
  }
  if (backward > 0) {
    Warn(warnings, absl::StrCat(backward, " slices begin before the one before them ended"));
  }
  for (Slice& slice : schedule.slices_) {
    slice.moment = schedule.end_moment_;
    schedule.end_moment_ += slice.length;
  }
  return schedule;
}

const std::vector<uint32_t>& Schedule::slices_of(int32_t thread) const {
  auto it = by_thread_.find(thread);
  CHECK(it != by_thread_.end());
  return it->second;
}

size_t Schedule::SliceAt(uint64_t moment) const {
  const auto it = FirstAfter(slices_, moment);
  CHECK(it != slices_.begin());
  size_t index = static_cast<size_t>(it - slices_.begin()) - 1;
  // At the end: the one that made the last transition.
  while (moment >= end_moment_ && index > 0 && slices_[index].length == 0) --index;
  return index;
}

uint64_t Schedule::CountAt(int32_t thread, uint64_t moment) const {
  const std::vector<uint32_t>& indices = slices_of(thread);
  auto it = std::partition_point(indices.begin(), indices.end(),
                                 [&](uint32_t index) { return slices_[index].moment <= moment; });
  if (it == indices.begin()) return slices_[*it].count;
  const Slice& slice = slices_[*std::prev(it)];
  return slice.count + std::min(moment - slice.moment, slice.length);
}

uint64_t Schedule::MomentFrom(int32_t thread, uint64_t count) const {
  const std::vector<uint32_t>& indices = slices_of(thread);
  auto it = std::partition_point(indices.begin(), indices.end(),
                                 [&](uint32_t index) { return slices_[index].count <= count; });
  if (it == indices.begin()) return slices_[*it].moment;
  const Slice& slice = slices_[*std::prev(it)];
  if (slice.length == 0) return MomentTo(thread, count);  // its last state
  return slice.moment + std::min(count - slice.count, slice.length);
}

size_t Schedule::TurnIn(int32_t thread, uint64_t count, uint8_t turn) const {
  const std::vector<uint32_t>& indices = slices_of(thread);
  auto it = std::partition_point(indices.begin(), indices.end(),
                                 [&](uint32_t index) { return slices_[index].count < count; });
  if (it == indices.end() || slices_[*it].count != count || turn == 0) {
    return it == indices.begin() ? *it : *std::prev(it);
  }
  while (--turn != 0 && std::next(it) != indices.end() && slices_[*std::next(it)].count == count) {
    ++it;
  }
  return *it;
}

uint64_t Schedule::MomentTo(int32_t thread, uint64_t count) const {
  const std::vector<uint32_t>& indices = slices_of(thread);
  auto it = std::partition_point(indices.begin(), indices.end(),
                                 [&](uint32_t index) { return slices_[index].count < count; });
  if (it == indices.begin()) return slices_[*it].moment;
  const Slice& slice = slices_[*std::prev(it)];
  return slice.moment + std::min(count - slice.count, slice.length);
}

size_t Schedule::NextSliceOf(int32_t thread, uint64_t moment) const {
  const std::vector<uint32_t>& indices = slices_of(thread);
  auto it = std::partition_point(indices.begin(), indices.end(),
                                 [&](uint32_t index) { return slices_[index].moment <= moment; });
  return it == indices.end() ? slices_.size() : *it;
}

size_t Schedule::SliceOfSequence(uint64_t sequence) const {
  auto it = std::partition_point(slices_.begin(), slices_.end(),
                                 [&](const Slice& slice) { return slice.sequence <= sequence; });
  if (it == slices_.begin()) return slices_.size();
  return static_cast<size_t>(it - slices_.begin()) - 1;
}

}  // namespace hindsight
