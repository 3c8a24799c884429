// A view of guest memory for tests of flavour record: at first it differs from memory at random,
// and some of its pages are missing.
//
// Owns the view's pages. Borrows the memory it is of. One thread.

#ifndef HINDSIGHT_TRANSLATOR_CHECKS_TWIN_VIEW_H_
#define HINDSIGHT_TRANSLATOR_CHECKS_TWIN_VIEW_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace hindsight {

class TwinView {
 public:
  TwinView(absl::Span<const uint8_t> memory, uint64_t distance);
  ~TwinView();
  TwinView(const TwinView&) = delete;
  TwinView& operator=(const TwinView&) = delete;

  // What the thread has seen so far is old in some places, or nothing.
  void Begin(std::mt19937_64* random);

  // Makes what is at guest address `address` agree with memory, as far as that goes. False: it is
  // not of this view.
  bool Import(uint64_t address, uint64_t bytes);
  // A fault at host address `address`: true if it was a missing page, which is there now.
  bool Repair(uint64_t address);

  // Whether [address, address + bytes) is what is in memory now. Of another address: true.
  bool Shows(uint64_t address, uint64_t bytes) const;
  // "": whatever is not what it was in the beginning is what memory holds, and memory has not been
  // changed elsewhere.
  std::string Verify() const;

 private:
  absl::Span<uint8_t> view() const;
  void Unprotect(size_t page);
  void Provide(uint64_t at, uint64_t bytes);

  const absl::Span<const uint8_t> memory_;
  const uint64_t begin_;  // guest address
  const uint64_t distance_;
  std::vector<uint8_t> old_memory_, old_view_;
  std::vector<bool> missing_;  // pages
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRANSLATOR_CHECKS_TWIN_VIEW_H_
