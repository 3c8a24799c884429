// What translated code does about an instruction that is an event in the order of threads: it takes
// the time and writes a struct HsLockedEntry (thread_block.h), or leaves to the agent, which does
// so.
//
// A store has the time before it, what only loads the time after it: so who loads what another
// thread has stored, and whatever it does then, is later than the store.
//
// Borrows the writer. Not copyable.

#ifndef HINDSIGHT_TRANSLATOR_ORDER_ENTRY_H_
#define HINDSIGHT_TRANSLATOR_ORDER_ENTRY_H_

#include <cstdint>

#include "isa/registers.h"
#include "translator/block_writer.h"

namespace hindsight {

// The steps. Between Spill and Restore rax, rdx and rcx are free, in the save slots 0, 1 and 2.
class OrderEntry {
 public:
  explicit OrderEntry(BlockWriter* writer) : writer_(writer), code_(writer->code()) {}
  OrderEntry(const OrderEntry&) = delete;
  OrderEntry& operator=(const OrderEntry&) = delete;

  void Spill();
  void Restore();
  // rcx becomes the ring's address, rdx changes. Jumps to `agent` if the ring has no room. Changes
  // flags.
  void LookForRoom(Label* agent);
  // Says in the ring at rcx that a time is about to be taken.
  void Announce();
  // Into rax, after all that was executed before; rdx changes. Other processors must see by then
  // what was announced. Changes flags.
  void TakeTime();
  // Of the instruction at the writer's place; the time in rax, the ring's address in rcx. Changes
  // flags, rax and rdx.
  void Write();

  static constexpr int kSpilled[] = {kRax, kRdx, kRcx};

 private:
  HostAddress InRing(int64_t offset) const;
  HostAddress InEntry(int64_t offset) const;
  void StoreWord(const HostAddress& address, uint32_t value);

  BlockWriter* const writer_;
  Assembler* const code_;
};

// Before the instruction at the writer's place: takes the time, if it is to be ordered so.
void WriteOrderBefore(BlockWriter* writer);
// After it has had its effects: writes the entry, if it is to be ordered. `flags`: the status flags
// that are still needed.
void WriteOrder(uint32_t flags, BlockWriter* writer);

}  // namespace hindsight

#endif  // HINDSIGHT_TRANSLATOR_ORDER_ENTRY_H_
