#include "translator/block_writer.h"

#include <cstddef>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "isa/registers.h"
#include "translator/host/branch_site.h"
#include "translator/indirect.h"
#include "translator/order_entry.h"

namespace hindsight {
namespace {

constexpr uint32_t kLinkAlignment = 4;
constexpr uint8_t kInt3 = 0xcc;
constexpr int kPoppedSlot = 2;         // of saved_
constexpr uint16_t kAllFlags = 0x8d5;  // status flags
// Where an indirect branch leads.
constexpr int kHostField = HS_BLOCK_FIELD(branch_host);

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

BlockWriter::BlockWriter(const TranslateRequest& request,
                         absl::Span<const GuestInstruction> instructions)
    : request_(request), choice_(instructions), code_(request.host_address) {}

int BlockWriter::SaveSlot(int number) {
  return HS_BLOCK_FIELD(save) + number * static_cast<int>(sizeof(uint64_t));
}

void BlockWriter::Begin(const InstructionPlace& place) {
  if (place.guest_pc != place_.guest_pc) {
    r11_is_guests_ = std::exchange(r11_stays_guests_, false);
  }
  place_ = place;
  begins_at_ = code_.here();
  saved_[kStubSlot] = place.flags_aside ? HS_FLAGS_ASIDE : HS_NOT_SAVED;
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

void BlockWriter::RestoreKept() {
  if (kept_ == HS_NOT_SAVED) return;
  code_.LoadField(kept_, SaveSlot(0));
  kept_ = HS_NOT_SAVED;
  ForgetSaved();
  begins_at_ = code_.here();  // who begins there again may have used the slot
  MarkFault();
}

void BlockWriter::AddLink(uint64_t target, uint16_t flags_exact) {
  PendingExit* pending = AddExit(kHsExitLink);
  pending->exit.guest_pc = target;
  pending->exit.flags_exact = flags_exact;
  links_.push_back({code_.offset(), target});
  pending->label.rel32.push_back(code_.offset());
  code_.Word32(0);
}

void BlockWriter::WriteBranch(uint64_t target, uint16_t flags_exact) {
  code_.PadBranch(2, kLinkAlignment);
  code_.Byte(kJumpPrefix);
  code_.Byte(kJumpOpcode);
  AddLink(target, flags_exact);
}

void BlockWriter::Branch(uint64_t target) { WriteBranch(target, flags_at_end_); }

void BlockWriter::BranchIf(uint8_t condition, uint64_t target) {
  code_.PadBranch(2, kLinkAlignment);
  code_.Byte(0x0f);
  code_.Byte(0x80 | condition);
  AddLink(target, flags_at_end_);
}

// Says that the call's return leads to `place`.
void BlockWriter::TellPlace(const ReturnPlace& return_to, Label* place) {
  code_.LeaLabel(kR11, place);
  code_.StoreField(HsPlaceOffset(return_to.guest_pc), kR11);
}

// Any return whose target has the same lower bits may come here: another one searches. The flags
// are aside.
void BlockWriter::WriteReturnPlace(const ReturnPlace& to, Label* place) {
  code_.Bind(place);
  code_.MoveConstant(kR11, to.guest_pc);
  code_.CompareBytes(sizeof(to.guest_pc), kR11, ReturnTarget(direct()));
  code_.JumpToIf(kNotZero, request_.stubs.search_return);
  if (to.flags_read != 0) TakeFlagsBack();
  WriteBranch(to.guest_pc, to.flags_read == 0 ? 0 : kAllFlags);
}

void BlockWriter::BranchWithFlagsAside(uint64_t target) {
  TakeFlagsBack();
  place_.flags_aside = false;
  saved_[kStubSlot] = HS_NOT_SAVED;
  MarkFault();
  WriteBranch(target, kAllFlags);
}

void BlockWriter::BranchFromCall(uint64_t target, const ReturnPlace& return_to) {
  if (request_.flavour != Flavour::kRecord) return Branch(target);
  Label place;
  TellPlace(return_to, &place);
  Branch(target);
  WriteReturnPlace(return_to, &place);
}

void BlockWriter::StoreFlags() {
  code_.Bytes({0x9f, 0x0f, 0x90, 0xc0});  // lahf; seto %al
  code_.StoreBytes(4, Field(HS_BLOCK_FIELD(flags_aside)), kRax);
}

void BlockWriter::PutFlagsAside() {
  LoseR11();
  code_.Move(kR11, kRax);
  StoreFlags();
  code_.Move(kRax, kR11);
}

void BlockWriter::TakeFlagsBack() {
  code_.Move(kR11, kRax);
  RestoreFlags();
  code_.Move(kRax, kR11);
}

void BlockWriter::KeepFlags() {
  StoreFlags();
  place_.flags_aside = true;
  saved_[kStubSlot] = HS_FLAGS_ASIDE;
  MarkFault();
}

void BlockWriter::GiveBackFlags() {
  RestoreFlags();
  place_.flags_aside = false;
  saved_[kStubSlot] = HS_NOT_SAVED;
}

// Changes rax.
void BlockWriter::RestoreFlags() { EmitRestoreFlags(&code_); }

// Puts what the table says of the guest pc in r11 into r11. The branch is ordered once it is known
// that it does not fault; then kHostField has it. r9 is hardly ever what a branch waits for.
void BlockWriter::FindR11(int64_t rsp_before) {
  CHECK(place_.flags_aside);
  PendingExit* pending = AddIndirectExit(rsp_before);
  if (place_.ordered) pending->exit.orderable = place_.stores ? HS_ORDER_TIMED : HS_ORDERED;
  pending->saved = {HS_NOT_SAVED, kR9, HS_NOT_SAVED, HS_NOT_SAVED};
  code_.StoreField(SaveSlot(1), kR9);
  const HostAddress entry = EmitTableEntry(kR11, kR9, &code_);
  code_.CompareBytes(8, kR11, entry);
  code_.JumpIf(kNotZero, &pending->label);
  code_.Load(kR11, HostOfEntry(entry));
  code_.LoadField(kR9, SaveSlot(1));
  if (!place_.ordered) return;
  code_.StoreField(kHostField, kR11);
  WriteOrder(0, this);
}

BlockWriter::PendingExit* BlockWriter::AddIndirectExit(int64_t rsp_before) {
  PendingExit* pending = AddExit(kHsExitIndirect);
  pending->exit.host_pc = static_cast<uint64_t>(rsp_before);
  pending->exit.operation = place_.guest_pc;
  pending->exit.adjust = 0;
  pending->exit.flags_exact = flags_at_end_;
  return pending;
}

void BlockWriter::BranchToR11(int64_t rsp_before) {
  FindR11(rsp_before);
  if (place_.ordered) return code_.JumpToField(kHostField);
  code_.JumpToR11();
}

void BlockWriter::BranchFromCallToR11(int64_t rsp_before, const ReturnPlace& return_to) {
  if (request_.flavour != Flavour::kRecord) return BranchToR11(rsp_before);
  FindR11(rsp_before);
  if (!place_.ordered) code_.StoreField(kHostField, kR11);
  Label place;
  TellPlace(return_to, &place);
  code_.JumpToField(kHostField);
  WriteReturnPlace(return_to, &place);
}

void BlockWriter::TellReturn(int64_t rsp_before) {
  PendingExit* pending = AddIndirectExit(rsp_before);
  pending->by_stub = true;
  code_.LeaLabel(kR11, &pending->label);
  code_.StoreField(SaveSlot(kReturnSlot), kR11);
}

BlockWriter::PendingExit* BlockWriter::AddExit(HsExitKind kind) {
  PendingExit& pending = exits_.emplace_back();
  std::memset(&pending.exit, 0, sizeof(pending.exit));
  pending.exit.guest_pc = place_.guest_pc;
  pending.exit.host_pc = begins_at_;
  pending.exit.kind = kind;
  pending.exit.size = static_cast<uint16_t>(place_.length);
  pending.exit.adjust = place_.adjust;
  pending.flags_aside = place_.flags_aside;
  pending.exit.flags_exact = place_.flags_aside ? kAllFlags : place_.flags_exact;
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

void BlockWriter::PopChecked(int to) {
  constexpr int64_t kWord = 8;
  constexpr HostAddress kTop = {.base = kRsp};
  HostAddress popped = {.base = kRsp, .displacement = -kWord, .segment = SegmentBase::kGs};
  AddExit(kHsExitMiss);
  PendingExit* pending = &exits_.back();
  pending->exit.size = kWord;
  pending->address = kTop;
  pending->popped = true;
  if (to >= 8) code_.Byte(0x41);
  code_.Byte(0x58 | (to & 7));
  saved_[kPoppedSlot] = HS_POPPED;
  MarkFault();
  code_.CompareBytes(kWord, to, popped);
  code_.JumpIf(kNotZero, &pending->label);
  MayFailCheck(&pending->label);
  saved_[kPoppedSlot] = HS_NOT_SAVED;
}

void BlockWriter::MayFailCheck(Label* miss) {
  constexpr uint64_t kMixed = 0x9e3779b97f4a7c15;
  const uint32_t rarity = request_.failing_checks;
  if (rarity != 0 && (code_.here() * kMixed >> 32) % rarity == 0) code_.Jump(miss);
}

Label* BlockWriter::ExitWith(HsExitKind kind, const HostAddress& address) {
  PendingExit* pending = AddExit(kind);
  pending->address = address;
  pending->saved = saved_;
  return &pending->label;
}

Label* BlockWriter::MayLeaveFor(HsExitKind kind, const HostAddress* address, uint16_t bytes,
                                const HsOperation* operation) {
  PendingExit* pending = AddExit(kind);
  pending->exit.size = bytes;
  if (address != nullptr) pending->address = *address;
  if (operation != nullptr) pending->operation = *operation;
  pending->saved = saved_;
  going_on_.push_back(pending);
  return &pending->label;
}

void BlockWriter::GoOnHere() {
  for (PendingExit* const pending : going_on_) pending->exit.host_pc = code_.here();
  going_on_.clear();
}

void BlockWriter::LeaveFor(HsExitKind kind, const HostAddress* address, uint16_t bytes,
                           const HsOperation* operation) {
  code_.Jump(MayLeaveFor(kind, address, bytes, operation));
  GoOnHere();
}

// Of a branch, or the counter: most of all exits.
void BlockWriter::WriteShortExit(const PendingExit& pending) {
  const HsExit& exit = pending.exit;
  const bool link = exit.kind == kHsExitLink;
  if (!link) code_.StoreConstant(4, Field(HS_BLOCK_FIELD(exit_adjust)), exit.adjust);
  code_.MoveConstant(kR11, exit.guest_pc);
  code_.JumpTo(link ? request_.stubs.LinkExit(exit.flags_exact)
                    : request_.stubs.CounterExit(exit.flags_exact));
}

void BlockWriter::WriteExit(PendingExit* pending) {
  if (pending->exit.kind == kHsExitLink) {
    code_.Bind(&pending->label);
    return WriteShortExit(*pending);
  }
  to_exits_.insert(to_exits_.end(), pending->label.rel32.begin(), pending->label.rel32.end());
  if (pending->by_stub) {
    code_.Align(8, kInt3);
    code_.Bind(&pending->label);
    AppendObject(pending->exit, &code_);
    return;
  }
  code_.Bind(&pending->label);
  if (pending->exit.kind == kHsExitCounter && !pending->flags_aside) {
    return WriteShortExit(*pending);
  }
  if (pending->popped) code_.Lea(kRsp, {.base = kRsp, .displacement = -8});
  const bool indirect = pending->exit.kind == kHsExitIndirect;
  if (indirect) code_.StoreField(HS_BLOCK_FIELD(exit_guest_pc), kR11);
  if (pending->flags_aside) {
    code_.StoreField(SaveSlot(kStubSlot), kRax);
    RestoreFlags();
    code_.LoadField(kRax, SaveSlot(kStubSlot));
  }
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
  // The exit's bytes lie at the next multiple of 8 after lea (7 bytes) and jmp (5).
  const uint64_t bytes_at = (code_.here() + 7 + 5 + 7) & ~7ull;
  code_.LeaOwn(kR11, bytes_at);
  code_.JumpTo(indirect ? request_.stubs.indirect_exit : request_.stubs.exit);
  code_.Align(8, kInt3);
  CHECK(code_.here() == bytes_at);
  if (pending->operation.has_value()) {
    pending->exit.operation = bytes_at + sizeof(HsExit);
  }
  if (!indirect) code_.NoteOwnAddress(code_.offset() + offsetof(HsExit, host_pc));
  if (pending->operation.has_value()) {
    code_.NoteOwnAddress(code_.offset() + offsetof(HsExit, operation));
  }
  AppendObject(pending->exit, &code_);
  if (pending->operation.has_value()) AppendObject(*pending->operation, &code_);
}

void BlockWriter::Finish(TranslatedBlock* block) {
  code_.Align(kHostAlignment, kInt3);
  block->exits_offset = code_.offset();
  for (PendingExit& pending : exits_) WriteExit(&pending);
  block->code = code_.Take();
  block->outward = code_.TakeOutward();
  block->own = code_.TakeOwn();
  block->to_exits = std::move(to_exits_);
  block->side = std::move(side_);
  block->links = std::move(links_);
}

}  // namespace hindsight
