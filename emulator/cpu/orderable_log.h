// The log of orderable instructions (isa/memory_model.h): the counts of the states from which they
// were executed, in a vector of the caller's.
//
// Movable and copyable. One thread at a time.

#ifndef HINDSIGHT_EMULATOR_CPU_ORDERABLE_LOG_H_
#define HINDSIGHT_EMULATOR_CPU_ORDERABLE_LOG_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "isa/memory_model.h"

namespace hindsight {

class OrderableLog {
 public:
  // `counts` is borrowed.
  void Start(MemoryModel model, std::vector<uint64_t>* counts) {
    model_ = model;
    counts_ = counts;
  }
  // The model stays: the next log is expected to have the same.
  void Stop() { counts_ = nullptr; }

  bool active() const { return counts_ != nullptr; }
  MemoryModel model() const { return model_; }

  // Requires, here and below: active().
  void Add(uint64_t count) { counts_->push_back(count); }
  // A block is executed from state `count` on; `indices` are those of its orderable instructions.
  void AddBlock(uint64_t count, absl::Span<const uint32_t> indices) {
    const size_t logged = counts_->size();
    counts_->resize(logged + indices.size());
    uint64_t* out = counts_->data() + logged;
    for (const uint32_t index : indices) *out++ = count + index;
  }
  // The thread goes back to state `count`. Also where the log is not active.
  void DropFrom(uint64_t count) {
    while (counts_ != nullptr && !counts_->empty() && counts_->back() >= count) {
      counts_->pop_back();
    }
  }

 private:
  MemoryModel model_ = MemoryModel::kKernel;
  std::vector<uint64_t>* counts_ = nullptr;
};

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_CPU_ORDERABLE_LOG_H_
