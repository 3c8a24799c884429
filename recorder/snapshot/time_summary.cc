#include "recorder/snapshot/time_summary.h"

#include <algorithm>
#include <bit>

namespace hindsight {
namespace {

constexpr unsigned kFractionBits = 5;
constexpr uint64_t kPlaces = uint64_t{1} << kFractionBits;

// Times below kPlaces have one each; of others the highest bits count.
size_t Place(uint64_t ns) {
  if (ns < kPlaces) return static_cast<size_t>(ns);
  const unsigned shift = static_cast<unsigned>(std::bit_width(ns)) - 1 - kFractionBits;
  return static_cast<size_t>((shift + 1) * kPlaces + ((ns >> shift) - kPlaces));
}

// The middle of the times that have the place.
uint64_t TimeAt(size_t place) {
  if (place < kPlaces) return place;
  const unsigned shift = static_cast<unsigned>(place / kPlaces) - 1;
  return ((kPlaces + place % kPlaces) << shift) + ((uint64_t{1} << shift) >> 1);
}

}  // namespace

void TimeSummary::Add(uint64_t ns) {
  const size_t place = Place(ns);
  if (place >= counts_.size()) counts_.resize(place + 1);
  ++counts_[place];
  ++count_;
  worst_ns_ = std::max(worst_ns_, ns);
}

uint64_t TimeSummary::MedianNs() const {
  uint64_t before = 0;
  for (size_t place = 0; place < counts_.size(); ++place) {
    before += counts_[place];
    if (before > count_ / 2) return std::min(TimeAt(place), worst_ns_);
  }
  return 0;
}

}  // namespace hindsight
