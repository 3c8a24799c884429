#include "translator/record_locked.h"

#include "isa/registers.h"
#include "translator/checked_access.h"
#include "translator/guest/encoding.h"
#include "translator/order_entry.h"
#include "translator/substitution.h"

namespace hindsight {
namespace {

constexpr uint8_t kLock = 0xf0;
// The operand's address is in r11 throughout.
constexpr HostAddress kMemory = {.base = kR11};

enum class Way { kNone, kAdd, kExchange, kCompare, kLoop };

Way WayOf(const HsOperation& operation) {
  switch (operation.kind) {
    case kHsAdd:
    case kHsSub:
    case kHsInc:
    case kHsDec:
    case kHsXadd:
      return Way::kAdd;
    case kHsXchg:
      return Way::kExchange;
    case kHsCmpxchg:
      return Way::kCompare;
    case kHsAnd:
    case kHsOr:
    case kHsXor:
    case kHsNot:
      return Way::kLoop;
    default:
      return Way::kNone;
  }
}

bool HasSource(const HsOperation& operation) {
  return operation.kind != kHsInc && operation.kind != kHsDec && operation.kind != kHsNot;
}

bool IsSpilled(int number) { return number == kRax || number == kRdx || number == kRcx; }

class LockedWriter {
 public:
  LockedWriter(const GuestInstruction& instruction, const HsOperation& operation,
               BlockWriter* writer)
      : instruction_(instruction),
        operation_(operation),
        bytes_(operation.bytes),
        wide_(operation.bytes == 8),
        writer_(writer),
        code_(writer->code()),
        entry_(writer) {}

  bool Write() {
    Temporaries temporaries(instruction_, writer_);
    Substitution substitution(instruction_, writer_, &temporaries);
    code_->Lea(kR11, substitution.Address(/*flat=*/true));
    if (temporaries.failed()) return false;
    entry_.Spill();
    LookForRoom();
    if (writer_->direct()) return WriteDirect();
    AccessMemory();
    entry_.TakeTime();
    Compare();
    entry_.Write();
    entry_.Restore();
    const bool written = ChangeView();
    writer_->GoOnHere();
    return written;
  }

 private:
  // The guest's own instruction, as it is but for its address.
  bool WriteDirect() {
    entry_.Restore();
    Encoding encoding(instruction_);
    encoding.SetMemory(kMemory);
    if (!encoding.Write(code_)) return false;
    entry_.Spill();
    const bool keeps_flags = writer_->place().flags_after != 0;
    if (keeps_flags) writer_->KeepFlags();
    code_->LoadField(kRcx, HS_BLOCK_FIELD(locked_ring));
    entry_.TakeTime();
    entry_.Write();
    if (keeps_flags) writer_->GiveBackFlags();
    entry_.Restore();
    writer_->GoOnHere();
    return true;
  }

  // From here on rcx is the ring's address. The page comes into the view as it is before.
  void LookForRoom() {
    Label* const agent = writer_->MayLeaveFor(kHsExitOperation, &kMemory,
                                              static_cast<uint16_t>(bytes_), &operation_);
    // First: a page that enters the view takes room, and may have the ring start over. The access
    // itself has others see that a time is about to be taken.
    if (writer_->direct()) {
      // Where 16 bytes are not aligned there is another fault.
      if (bytes_ <= 8) code_->LoadBytes(bytes_, kRdx, kMemory);
    } else {
      code_->LoadBytes(bytes_, kRdx, InView(kMemory));
    }
    entry_.LookForRoom(agent);
    entry_.Announce();
  }

  // Before rax and rdx have been changed.
  void LoadSource(int to) {
    if (operation_.source == HS_SOURCE_IMMEDIATE) {
      code_->MoveConstant(to, static_cast<uint64_t>(operation_.immediate));
    } else if (operation_.source == kRdx || operation_.source == kRcx) {
      code_->LoadField(to, BlockWriter::SaveSlot(operation_.source == kRdx ? 1 : 2));
    } else if (operation_.source != to) {
      code_->Move(to, operation_.source);
    }
  }

  // rax: what memory had.
  void AccessMemory() {
    switch (WayOf(operation_)) {
      case Way::kAdd:
        LoadSummand();
        code_->Byte(kLock);
        code_->Operation({.bytes = {0x0f, 0xc1}, .wide = wide_}, kRax, kMemory);  // xadd
        break;
      case Way::kExchange:
        LoadSource(kRax);
        code_->Operation({.bytes = {0x87}, .wide = wide_}, kRax, kMemory);  // xchg
        break;
      case Way::kCompare:
        LoadSource(kRdx);
        CompareAndExchange();
        break;
      default:
        WriteLoop();
        break;
    }
    code_->StoreField(HS_BLOCK_FIELD(locked_old), kRax);
  }

  void LoadSummand() {
    if (operation_.kind == kHsInc || operation_.kind == kHsDec) {
      code_->MoveConstant(kRax, operation_.kind == kHsInc ? 1 : ~uint64_t{0});
      return;
    }
    LoadSource(kRax);
    if (operation_.kind == kHsSub) code_->Operation({.bytes = {0xf7}, .wide = true}, 3, kRax);
  }

  // lock cmpxchg %rdx,(m)
  void CompareAndExchange() {
    code_->Byte(kLock);
    code_->Operation({.bytes = {0x0f, 0xb1}, .wide = wide_}, kRdx, kMemory);
  }

  void WriteLoop() {
    Label again;
    code_->LoadBytes(bytes_, kRax, kMemory);
    code_->Bind(&again);
    code_->Move(kRdx, kRax);
    Encoding encoding = Unlocked();
    encoding.SetMemoryToRegister(kRdx);
    written_ &= encoding.Write(code_);
    CompareAndExchange();
    code_->JumpIf(kNotZero, &again);
  }

  void Compare() {
    HsOperation rest = operation_;
    rest.done = 1;
    Label* const agent =
        writer_->MayLeaveFor(kHsExitOperation, &kMemory, static_cast<uint16_t>(bytes_), &rest);
    code_->StoreField(HS_BLOCK_FIELD(locked_time), kRax);
    code_->LoadField(kRdx, HS_BLOCK_FIELD(locked_old));
    code_->CompareBytes(bytes_, kRdx, InView(kMemory));
    code_->JumpIf(kNotZero, agent);
    writer_->MayFailCheck(agent);
  }

  Encoding Unlocked() const {
    Encoding encoding(instruction_);
    // xacquire and xrelease as well
    for (const uint8_t prefix : {kLock, uint8_t{0xf2}, uint8_t{0xf3}}) encoding.DropPrefix(prefix);
    return encoding;
  }

  bool ChangeView() {
    if (WayOf(operation_) == Way::kExchange) {
      code_->StoreBytes(bytes_, InView(kMemory), operation_.source);
      code_->LoadBytes(bytes_, operation_.source, Field(HS_BLOCK_FIELD(locked_old)));
      return true;
    }
    Encoding encoding = Unlocked();
    encoding.SetMemory(InView(kMemory));
    return encoding.Write(code_) && written_;
  }

  const GuestInstruction& instruction_;
  const HsOperation& operation_;
  const int bytes_;
  const bool wide_;
  BlockWriter* const writer_;
  Assembler* const code_;
  OrderEntry entry_;
  bool written_ = true;
};

}  // namespace

bool IsLockedHere(const GuestInstruction& instruction, const HsOperation& operation,
                  const BlockWriter& writer) {
  constexpr uint16_t kReserved = 1 << kR10 | 1 << kR11;
  const bool segment = (instruction.decoded.attributes &
                        (ZYDIS_ATTRIB_HAS_SEGMENT_FS | ZYDIS_ATTRIB_HAS_SEGMENT_GS)) != 0;
  if (operation.locked == 0 || segment || (UsedRegisters(instruction) & kReserved) != 0 ||
      !MayChangeFlags(writer) || !writer.has_fences() || writer.trusts_view()) {
    return false;
  }
  if (writer.direct()) return !IsBitTest(instruction) && !UsesHighByte(instruction);
  const Way way = WayOf(operation);
  if (way == Way::kNone || (operation.bytes != 4 && operation.bytes != 8)) return false;
  // In the loop the instruction itself is executed, between other things.
  return way != Way::kLoop || !HasSource(operation) || !IsSpilled(operation.source);
}

bool WriteLocked(const GuestInstruction& instruction, const HsOperation& operation,
                 BlockWriter* writer) {
  return LockedWriter(instruction, operation, writer).Write();
}

}  // namespace hindsight
