#include "translator/block_writer.h"

#include <cstddef>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "isa/registers.h"

namespace hindsight {
namespace {

constexpr uint32_t kLinkAlignment = 4;
constexpr uint8_t kInt3 = 0xcc;

bool SamePlace(const SideEntry& one, const SideEntry& other) {
  return one.guest_offset == other.guest_offset && one.adjust == other.adjust &&
         one.saved == other.saved && one.flags_exact == other.flags_exact;
}

template <typename Object>
void AppendObject(const Object& object, Assembler* code) {
  uint8_t bytes[sizeof(Object)];
  std::memcpy(bytes, &object, sizeof(bytes));
  code->Bytes(bytes);
}

}  // namespace

BlockWriter::BlockWriter(const TranslateRequest& request)
    : request_(request), code_(request.host_address) {}

int BlockWriter::SaveSlot(int number) {
  return HS_BLOCK_FIELD(save) + number * static_cast<int>(sizeof(uint64_t));
}

void BlockWriter::Begin(const Place& place) {
  place_ = place;
  begins_at_ = code_.here();
  MarkFault();
}

void BlockWriter::MarkFault() {
  const SideEntry entry = {
      .host_offset = code_.offset(),
      .guest_offset = static_cast<uint32_t>(place_.guest_pc - request_.guest_pc),
      .adjust = place_.adjust,
      .saved = saved_,
      .flags_exact = place_.flags_exact};
  if (!side_.empty() && side_.back().host_offset == entry.host_offset) side_.pop_back();
  if (side_.empty() || !SamePlace(side_.back(), entry)) side_.push_back(entry);
}

void BlockWriter::AddLink(uint64_t target) {
  PendingExit* pending = AddExit(kHsExitLink);
  pending->exit.guest_pc = target;
  pending->exit.adjust = 0;
  pending->exit.size = 0;
  pending->exit.flags_exact = flags_at_end_;
  pending->exit.link_or_operation = code_.here();
  links_.push_back({code_.offset(), target});
  pending->label.rel32.push_back(code_.offset());
  code_.Word32(0);
}

void BlockWriter::Branch(uint64_t target) {
  code_.PadUntilAligned(1, kLinkAlignment);
  code_.Byte(0xe9);
  AddLink(target);
}

void BlockWriter::BranchIf(uint8_t condition, uint64_t target) {
  code_.PadUntilAligned(2, kLinkAlignment);
  code_.Byte(0x0f);
  code_.Byte(0x80 | condition);
  AddLink(target);
}

void BlockWriter::BranchToR11(int64_t rsp_before) {
  static_assert(HS_TABLE_ENTRIES == 0x10000 && sizeof(HsTableEntry) == 16);
  PendingExit* pending = AddExit(kHsExitIndirect);
  pending->exit.host_pc = static_cast<uint64_t>(rsp_before);
  pending->exit.link_or_operation = place_.guest_pc;
  pending->exit.adjust = 0;
  pending->exit.flags_exact = flags_at_end_;
  pending->saved = {kRax, kRcx, HS_NOT_SAVED, HS_NOT_SAVED};
  Label hit;
  code_.StoreField(SaveSlot(0), kRax);
  code_.StoreField(SaveSlot(1), kRcx);
  code_.Operation({.bytes = {0x0f, 0xb7}}, kRax, kR11);  // movzwl %r11w,%eax
  code_.Lea(kRax, {.base = kRax, .index = kRax});
  HostAddress entry = {
      .index = kRax, .scale = 8, .displacement = HS_TABLE_OFFSET, .segment = SegmentBase::kGs};
  code_.Load(kRcx, entry);
  code_.Lea(kRcx, {.base = kRcx, .index = kR11});
  code_.JumpIfRcxZero(&hit);
  code_.Jump(&pending->label);
  code_.Bind(&hit);
  entry.displacement += offsetof(HsTableEntry, host);
  code_.Load(kR11, entry);
  code_.LoadField(kRax, SaveSlot(0));
  code_.LoadField(kRcx, SaveSlot(1));
  code_.Bytes({0x41, 0xff, 0xe3});  // jmp *%r11
}

BlockWriter::PendingExit* BlockWriter::AddExit(HsExitKind kind) {
  PendingExit& pending = exits_.emplace_back();
  std::memset(&pending.exit, 0, sizeof(pending.exit));
  pending.exit.guest_pc = place_.guest_pc;
  pending.exit.host_pc = begins_at_;
  pending.exit.kind = kind;
  pending.exit.size = static_cast<uint16_t>(place_.length);
  pending.exit.adjust = place_.adjust;
  pending.exit.flags_exact = place_.flags_exact;
  std::memset(pending.exit.saved, HS_NOT_SAVED, sizeof(pending.exit.saved));
  return &pending;
}

Label* BlockWriter::Exit(HsExitKind kind) { return &AddExit(kind)->label; }

Label* BlockWriter::Miss(const HostAddress& address, uint16_t bytes, int rcx_slot) {
  PendingExit* pending = AddExit(kHsExitMiss);
  pending->exit.size = bytes;
  pending->address = address;
  pending->saved = saved_;
  pending->rcx_slot = rcx_slot;
  return &pending->label;
}

Label* BlockWriter::ExitWith(HsExitKind kind, const HostAddress& address) {
  PendingExit* pending = AddExit(kind);
  pending->address = address;
  pending->saved = saved_;
  return &pending->label;
}

void BlockWriter::LeaveFor(HsExitKind kind, const HostAddress* address, uint16_t bytes,
                           const HsOperation* operation) {
  PendingExit* pending = AddExit(kind);
  pending->exit.size = bytes;
  if (address != nullptr) pending->address = *address;
  if (operation != nullptr) pending->operation = *operation;
  pending->saved = saved_;
  code_.Jump(&pending->label);
  pending->exit.host_pc = code_.here();
}

void BlockWriter::WriteExit(PendingExit* pending) {
  code_.Bind(&pending->label);
  if (pending->rcx_slot >= 0) code_.LoadField(kRcx, SaveSlot(pending->rcx_slot));
  if (pending->address.has_value()) {
    code_.Lea(kR11, *pending->address);
    code_.StoreField(HS_BLOCK_FIELD(exit_address), kR11);
  }
  for (size_t i = 0; i < pending->saved.size(); ++i) {
    if (pending->saved[i] < 16) {
      code_.LoadField(pending->saved[i], SaveSlot(static_cast<int>(i)));
    }
  }
  const bool indirect = pending->exit.kind == kHsExitIndirect;
  if (indirect) code_.StoreField(HS_BLOCK_FIELD(exit_guest_pc), kR11);
  // The exit's bytes lie at the next multiple of 8 after lea (7 bytes) and jmp (5).
  const uint64_t bytes_at = (code_.here() + 7 + 5 + 7) & ~7ull;
  code_.Lea(kR11, {.displacement = static_cast<int64_t>(bytes_at), .from_rip = true});
  code_.JumpTo(indirect ? request_.stubs.indirect_exit : request_.stubs.exit);
  code_.Align(8, kInt3);
  CHECK(code_.here() == bytes_at);
  if (pending->operation.has_value()) {
    pending->exit.link_or_operation = bytes_at + sizeof(HsExit);
  }
  AppendObject(pending->exit, &code_);
  if (pending->operation.has_value()) AppendObject(*pending->operation, &code_);
}

void BlockWriter::Finish(TranslatedBlock* block) {
  for (PendingExit& pending : exits_) WriteExit(&pending);
  block->code = code_.Take();
  block->side = std::move(side_);
  block->links = std::move(links_);
}

}  // namespace hindsight
