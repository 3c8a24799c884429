// The guest's memory as a Cpu accesses it: the view, with pages obtained from the Pager when they
// are first needed, and what accesses must be reported.
//
// Instructions executed outside Unicorn access memory through the GuestMemory interface. Generated
// code accesses the view itself and faults where a page lacks rights; the Cpu then calls Obtain().
// An access that the Pager refuses cannot be left at once by generated code: Poison() lets it run
// on to the end of its block, and RestorePoisoned() undoes that.
//
// Not copyable, not movable. One thread at a time.

#ifndef HINDSIGHT_EMULATOR_CPU_PAGED_MEMORY_H_
#define HINDSIGHT_EMULATOR_CPU_PAGED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "emulator/assist/guest_memory.h"
#include "emulator/cpu/pager.h"
#include "emulator/cpu/watchpoints.h"
#include "emulator/view/view.h"

namespace hindsight {

class AccessObserver {
 public:
  virtual ~AccessObserver() = default;
  // `page` has translated code and is about to be written to.
  virtual void OnCodeWrite(uint64_t page) = 0;
  // An access that may touch a watched location is about to happen. `value`: what is written, in
  // pieces of at most eight bytes.
  virtual void OnWatchedAccess(bool write, uint64_t address, uint32_t size, uint64_t value) = 0;
};

class PagedMemory final : public GuestMemory {
 public:
  // Both are borrowed.
  PagedMemory(Pager* pager, AccessObserver* observer) : pager_(pager), observer_(observer) {}
  PagedMemory(const PagedMemory&) = delete;
  PagedMemory& operator=(const PagedMemory&) = delete;

  View& view() { return view_; }
  const View& view() const { return view_; }
  Watchpoints& watchpoints() { return watchpoints_; }
  const Watchpoints& watchpoints() const { return watchpoints_; }
  void SetPager(Pager* pager) { pager_ = pager; }

  // Makes the page of `address` accessible. False: the access faults.
  bool Obtain(uint64_t address, bool write);
  // The same for the instructions on `page`.
  bool ObtainForExecution(uint64_t page);
  // The byte at `address`, which a write is about to change. nullopt: the write will fault.
  std::optional<uint8_t> ByteBeforeWrite(uint64_t address);

  bool Read(uint64_t address, absl::Span<uint8_t> out) override;
  bool Write(uint64_t address, absl::Span<const uint8_t> bytes) override;
  bool MayWrite(uint64_t address, absl::Span<uint8_t> old) override;
  uint8_t* Pointer(uint64_t address, size_t size, bool write) override;

  // Opens `page` so that generated code can run on, on garbage, until its block ends.
  void Poison(uint64_t page);
  // Puts back the contents of poisoned pages, the last poisoned first. `restored` is called with
  // each page before its rights are taken back; `gone`: its chunk is removed.
  void RestorePoisoned(absl::FunctionRef<void(uint64_t page, bool gone)> restored);

  // Of the last access that faulted; 0: not known.
  uint64_t fault_address() const { return fault_address_; }
  void set_fault_address(uint64_t address) { fault_address_ = address; }

 private:
  // What a page held before it was poisoned.
  struct Poisoned {
    uint64_t page = 0;
    bool new_chunk = false;  // made for it: nothing else is there
    std::vector<uint8_t> contents;
  };

  bool ObtainRange(uint64_t address, uint64_t size, bool write);
  // Where an access may be made at once.
  uint8_t* Unwatched(uint64_t address, size_t size, bool write) const {
    return watchpoints_.MayTouch(address, size) ? nullptr : view_.Direct(address, size, write);
  }
  void Report(bool write, uint64_t address, uint32_t size, uint64_t value) {
    if (watchpoints_.MayTouch(address, size)) {
      observer_->OnWatchedAccess(write, address, size, value);
    }
  }

  View view_;
  Pager* pager_;
  AccessObserver* const observer_;
  Watchpoints watchpoints_;
  std::vector<Poisoned> poisoned_;
  uint64_t fault_address_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_CPU_PAGED_MEMORY_H_
