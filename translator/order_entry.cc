#include "translator/order_entry.h"

#include <cstddef>

#include "translator/runtime/operation.h"
#include "translator/thread_block.h"

namespace hindsight {
namespace {

// What is written so much later the reader's processor has read: it is taken back by then, or the
// next locked instruction would wait for it.
constexpr int64_t kPrefetchedBytes = 256;

constexpr uint8_t kMfence[] = {0x0f, 0xae, 0xf0};

}  // namespace

HostAddress OrderEntry::InRing(int64_t offset) const {
  return {.base = kRcx, .displacement = offset};
}

HostAddress OrderEntry::InEntry(int64_t offset) const {
  return {.base = kRdx, .displacement = offset};
}

// movl
void OrderEntry::StoreWord(const HostAddress& address, uint32_t value) {
  code_->Operation({.bytes = {0xc7}}, 0, address, 4);
  code_->Word32(value);
}

void OrderEntry::Spill() {
  for (int i = 0; i < 3; ++i) {
    code_->StoreField(BlockWriter::SaveSlot(i), kSpilled[i]);
    (*writer_->saved())[static_cast<size_t>(i)] = static_cast<uint8_t>(kSpilled[i]);
  }
  writer_->MarkFault();
}

void OrderEntry::Restore() {
  for (int i = 0; i < 3; ++i) code_->LoadField(kSpilled[i], BlockWriter::SaveSlot(i));
  writer_->ForgetSaved();
  writer_->MarkFault();
}

void OrderEntry::LookForRoom(Label* agent) {
  constexpr auto kBelowOrEqual = static_cast<Condition>(6);
  code_->LoadField(kRcx, HS_BLOCK_FIELD(locked_ring));
  code_->LoadField(kRdx, HS_BLOCK_FIELD(locked_limit));
  code_->CompareBytes(8, kRdx, InRing(HS_LOCKED_HEAD));
  code_->JumpIf(kBelowOrEqual, agent);
}

void OrderEntry::Announce() { StoreWord(InRing(HS_LOCKED_WRITING), 1); }

void OrderEntry::TakeTime() {
  code_->Bytes({0x0f, 0xae, 0xe8});        // lfence
  code_->Bytes({0x0f, 0x31});              // rdtsc
  code_->Bytes({0x48, 0xc1, 0xe2, 0x20});  // shl $32,%rdx
  code_->Bytes({0x48, 0x09, 0xd0});        // or %rdx,%rax
}

void OrderEntry::Write() {
  code_->Load(kRdx, InRing(HS_LOCKED_HEAD));
  // add gs:[locked_bias],%rdx
  code_->Operation({.bytes = {0x03}, .wide = true}, kRdx, Field(HS_BLOCK_FIELD(locked_bias)));
  code_->Operation({.bytes = {0x0f, 0x0d}}, 1, InEntry(kPrefetchedBytes));  // prefetchw
  StoreWord(InEntry(offsetof(HsLockedEntry, size)), sizeof(HsLockedEntry));
  StoreWord(InEntry(offsetof(HsLockedEntry, kind)), HS_LOCKED_KIND);
  code_->Store(InEntry(offsetof(HsLockedEntry, time)), kRax);
  code_->LoadField(kRax, HS_BLOCK_FIELD(count_end));
  code_->Operation({.bytes = {0x2b}, .wide = true}, kRax, kR10);  // sub %r10,%rax
  code_->Bytes({0x48, 0x05});                                     // add $adjust,%rax
  code_->Word32(static_cast<uint32_t>(writer_->place().adjust));
  // A signal that comes between the two changes this bit of both.
  code_->Bytes({0x48, 0x0f, 0xba, 0xf0, 63});  // btr $63,%rax
  code_->Store(InEntry(offsetof(HsLockedEntry, count)), kRax);
  // addq: the entry is there
  code_->Operation({.bytes = {0x83}, .wide = true}, 0, InRing(HS_LOCKED_HEAD), 1);
  code_->Byte(sizeof(HsLockedEntry));
  StoreWord(InRing(HS_LOCKED_WRITING), 0);
}

void WriteOrderBefore(BlockWriter* writer) {
  const InstructionPlace& place = writer->place();
  if (!place.ordered || !place.stores) return;
  const bool keeps_flags = place.flags_exact != 0;
  Assembler* const code = writer->code();
  OrderEntry entry(writer);
  entry.Spill();
  if (keeps_flags) writer->KeepFlags();
  code->LoadField(kRcx, HS_BLOCK_FIELD(locked_ring));
  entry.Announce();
  code->Bytes(kMfence);
  entry.TakeTime();
  code->StoreField(HS_BLOCK_FIELD(locked_time), kRax);
  if (keeps_flags) writer->GiveBackFlags();
  entry.Restore();
}

void WriteOrder(uint32_t flags, BlockWriter* writer) {
  const InstructionPlace& place = writer->place();
  if (!place.ordered) return;
  Assembler* const code = writer->code();
  HsOperation operation = {};
  operation.kind = kHsOrder;
  operation.done = place.stores ? 1 : 0;
  OrderEntry entry(writer);
  entry.Spill();
  if (flags != 0) writer->KeepFlags();
  // Pages that entered the view meanwhile have taken room.
  entry.LookForRoom(writer->MayLeaveFor(kHsExitOperation, nullptr, 0, &operation));
  if (place.stores) {
    code->LoadField(kRax, HS_BLOCK_FIELD(locked_time));
  } else {
    entry.Announce();
    code->Bytes(kMfence);
    entry.TakeTime();
  }
  entry.Write();
  if (flags != 0) writer->GiveBackFlags();
  entry.Restore();
  writer->GoOnHere();
}

}  // namespace hindsight
