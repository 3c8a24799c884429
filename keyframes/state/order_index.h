// The orderable instructions of a trace: their sequence numbers and states, segment by segment,
// decoded when needed.
//
// Borrows the trace. Not copyable, not movable. Any number of host threads may use it at once.

#ifndef HINDSIGHT_KEYFRAMES_STATE_ORDER_INDEX_H_
#define HINDSIGHT_KEYFRAMES_STATE_ORDER_INDEX_H_

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tracefmt/trace_reader.h"

namespace hindsight {

// An orderable event of a thread, and the state it led to (or, where a slice or the thread itself
// starts, the state that was in).
struct SequencePoint {
  uint64_t sequence = 0;
  uint64_t count = 0;
};

class OrderIndex {
 public:
  using Points = std::vector<SequencePoint>;  // ascending in both

  explicit OrderIndex(const TraceReader* trace);
  OrderIndex(const OrderIndex&) = delete;
  OrderIndex& operator=(const OrderIndex&) = delete;

  // False: the trace has no orderable instructions, there is nothing to look for.
  bool any() const { return any_; }
  // Those of a segment; empty if it cannot be read.
  std::shared_ptr<const Points> Of(int32_t thread, uint64_t segment);

 private:
  struct Entry {
    int32_t thread = 0;
    uint64_t segment = 0;
    std::shared_ptr<const Points> points;
  };

  const TraceReader* const trace_;
  const bool any_;
  std::mutex mutex_;
  std::list<Entry> entries_;  // most recently used first
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_STATE_ORDER_INDEX_H_
