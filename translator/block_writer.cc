#include "translator/block_writer.h"

#include <cstring>
#include <utility>

#include "base/check.h"
#include "isa/registers.h"

namespace hindsight {
namespace {

constexpr uint32_t kLinkAlignment = 4;
constexpr uint8_t kInt3 = 0xcc;

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
      .flags_dead = place_.flags_dead};
  if (!side_.empty() && side_.back().host_offset == entry.host_offset) side_.pop_back();
  side_.push_back(entry);
}

void BlockWriter::AddLink(uint64_t target) {
  PendingExit* pending = AddExit(kHsExitLink);
  pending->exit.guest_pc = target;
  pending->exit.adjust = 0;
  pending->exit.size = 0;
  pending->exit.flags_dead = 0;
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

BlockWriter::PendingExit* BlockWriter::AddExit(HsExitKind kind) {
  PendingExit& pending = exits_.emplace_back();
  std::memset(&pending.exit, 0, sizeof(pending.exit));
  pending.exit.guest_pc = place_.guest_pc;
  pending.exit.host_pc = begins_at_;
  pending.exit.kind = kind;
  pending.exit.size = static_cast<uint16_t>(place_.length);
  pending.exit.adjust = place_.adjust;
  pending.exit.flags_dead = place_.flags_dead;
  std::memset(pending.exit.saved, HS_NOT_SAVED, sizeof(pending.exit.saved));
  return &pending;
}

Label* BlockWriter::Exit(HsExitKind kind) { return &AddExit(kind)->label; }

Label* BlockWriter::Miss(const HostAddress& address, uint16_t bytes) {
  PendingExit* pending = AddExit(kHsExitMiss);
  pending->exit.size = bytes;
  pending->address = address;
  pending->saved = saved_;
  return &pending->label;
}

void BlockWriter::WriteExit(PendingExit* pending) {
  code_.Bind(&pending->label);
  if (pending->address.has_value()) {
    code_.Lea(kR11, *pending->address);
    code_.StoreField(HS_BLOCK_FIELD(exit_address), kR11);
  }
  for (size_t i = 0; i < pending->saved.size(); ++i) {
    if (pending->saved[i] != HS_NOT_SAVED) {
      code_.LoadField(pending->saved[i], SaveSlot(static_cast<int>(i)));
    }
  }
  // The exit's bytes lie at the next multiple of 8 after lea (7 bytes) and jmp (5).
  const uint64_t bytes_at = (code_.here() + 7 + 5 + 7) & ~7ull;
  code_.Lea(kR11, {.displacement = static_cast<int64_t>(bytes_at), .from_rip = true});
  code_.JumpTo(request_.stubs.exit);
  code_.Align(8, kInt3);
  CHECK(code_.here() == bytes_at);
  uint8_t bytes[sizeof(HsExit)];
  std::memcpy(bytes, &pending->exit, sizeof(bytes));
  code_.Bytes(bytes);
}

void BlockWriter::Finish(TranslatedBlock* block) {
  for (PendingExit& pending : exits_) WriteExit(&pending);
  block->code = code_.Take();
  block->side = std::move(side_);
  block->links = std::move(links_);
}

}  // namespace hindsight
