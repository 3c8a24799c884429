// Checks that a trace's sequence numbers put its events in one order: never repeated in the
// process, rising along each thread, in the slices they belong to.
//
// Is fed segment by segment, by several host threads at once. Not copyable, not movable.

#ifndef HINDSIGHT_KEYFRAMES_VERIFY_VERIFY_ORDER_H_
#define HINDSIGHT_KEYFRAMES_VERIFY_VERIFY_ORDER_H_

#include <cstdint>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

class OrderCheck {
 public:
  OrderCheck() = default;
  OrderCheck(const OrderCheck&) = delete;
  OrderCheck& operator=(const OrderCheck&) = delete;

  // Takes the numbers of a segment. kDataLoss if they do not fit each other, or are not those of
  // transitions of the segment.
  absl::Status AddSegment(const Segment& segment);
  // When all segments were added: whether all fits. kDataLoss naming what does not.
  absl::Status CheckProcess(const TraceReader& trace);

  uint64_t numbers() const { return numbers_; }  // sequence numbers seen

 private:
  // Numbers first, first + 1, ... of transitions of one thread.
  struct Run {
    uint64_t first = 0;
    uint64_t length = 1;
    int32_t thread = 0;
    uint64_t first_count = 0;  // the states the first and the last transition led to
    uint64_t last_count = 0;
    bool is_slice = false;  // the start of a slice, in that state
    bool is_start = false;  // that of a thread
    uint64_t last() const { return first + (length - 1); }
  };

  static absl::Status AddOrderRun(const Segment& segment, const Record& record,
                                  const std::vector<uint64_t>& transitions, std::vector<Run>* runs);
  void AddEvents(const TraceReader& trace);
  static uint64_t LastOrdered(const TraceReader& trace);
  absl::Status CheckRuns(const TraceReader& trace) const;

  std::mutex mutex_;
  std::vector<Run> runs_;
  uint64_t numbers_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_VERIFY_VERIFY_ORDER_H_
