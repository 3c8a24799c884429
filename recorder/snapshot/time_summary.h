// The median and the worst of any number of times, in a bounded amount of memory: how often each
// was measured is counted, to within 3%.
//
// Value type.

#ifndef HINDSIGHT_RECORDER_SNAPSHOT_TIME_SUMMARY_H_
#define HINDSIGHT_RECORDER_SNAPSHOT_TIME_SUMMARY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hindsight {

class TimeSummary {
 public:
  void Add(uint64_t ns);

  uint64_t count() const { return count_; }
  uint64_t worst_ns() const { return worst_ns_; }
  uint64_t MedianNs() const;  // 0: there are none

 private:
  uint64_t count_ = 0, worst_ns_ = 0;
  // By Place: 32 for each power of two.
  std::vector<uint64_t> counts_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SNAPSHOT_TIME_SUMMARY_H_
