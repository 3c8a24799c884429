// Which instructions translated code has ordered among threads, against those that it is to.
//
// Not copyable. One thread.

#ifndef HINDSIGHT_TRANSLATOR_CHECKS_ORDER_CHECK_H_
#define HINDSIGHT_TRANSLATOR_CHECKS_ORDER_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "isa/memory_model.h"

namespace hindsight {

class OrderCheck {
 public:
  // The guest's code, which is this process's memory, ends at `code_end`.
  OrderCheck(MemoryModel model, uint64_t code_end) : model_(model), code_end_(code_end) {}
  OrderCheck(const OrderCheck&) = delete;
  OrderCheck& operator=(const OrderCheck&) = delete;

  // `counts`: the states from which instructions were executed that have been ordered, ascending.
  // `pcs`: of all that were begun, of which so many were executed. What is wrong; empty: nothing.
  // Locked ones need not be there: they may have been left to the agent.
  std::string Compare(const std::vector<uint64_t>& counts, const std::vector<uint64_t>& pcs,
                      uint64_t executed);

  // How many have been ordered so far.
  uint64_t locked() const { return locked_; }
  uint64_t others() const { return others_; }

 private:
  MemoryUse UseAt(uint64_t pc) const;

  const MemoryModel model_;
  const uint64_t code_end_;
  uint64_t locked_ = 0, others_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRANSLATOR_CHECKS_ORDER_CHECK_H_
