#include "translator/substitution.h"

#include "base/check.h"
#include "isa/registers.h"

namespace hindsight {
namespace {

// Never rsp; rcx only if there is no other.
constexpr uint16_t kSpillable = 0xffff & ~(1 << kRsp | 1 << kRcx | 1 << kR10 | 1 << kR11);
constexpr int kSlots = 3;  // of save[]; the last is the stubs'

bool OverwritesWhole(const GuestInstruction& instruction, const ZydisDecodedOperand& operand) {
  const ZydisMnemonic mnemonic = instruction.decoded.mnemonic;
  return operand.actions == ZYDIS_OPERAND_ACTION_WRITE && operand.size >= 32 &&
         mnemonic != ZYDIS_MNEMONIC_BSF && mnemonic != ZYDIS_MNEMONIC_BSR;
}

}  // namespace

Temporaries::Temporaries(const GuestInstruction& instruction, BlockWriter* writer)
    : writer_(writer),
      avoid_(UsedRegisters(instruction)),
      r11_taken_(false),
      first_(writer->kept() == HS_NOT_SAVED ? 0 : 1),
      spilled_(first_) {
  if (!UsesHighByte(instruction)) return;
  r11_taken_ = true;
  avoid_ |= 0xff00;
  writer_->LoseR11();
}

int Temporaries::Take() {
  if (r11_taken_) return Spill();
  r11_taken_ = true;
  writer_->LoseR11();
  return kR11;
}

int Temporaries::Spill() {
  if (first_ != 0 && !kept_taken_ && (avoid_ >> writer_->kept() & 1) == 0) {
    kept_taken_ = true;
    avoid_ |= static_cast<uint16_t>(1u << writer_->kept());
    return writer_->kept();
  }
  const auto free = static_cast<uint16_t>(~avoid_);
  const bool room = spilled_ + reserved_ < kSlots;
  int number = room ? writer_->choice()->Take(free & kSpillable) : -1;
  if (number < 0 && room && (free >> kRcx & 1) != 0) number = kRcx;
  if (number < 0) {
    failed_ = true;
    return kRax;
  }
  avoid_ |= static_cast<uint16_t>(1u << number);
  writer_->code()->StoreField(BlockWriter::SaveSlot(spilled_), number);
  (*writer_->saved())[spilled_++] = static_cast<uint8_t>(number);
  return number;
}

int Temporaries::TakeSlot() {
  failed_ |= spilled_ + reserved_ >= kSlots;
  return failed_ ? -1 : kSlots - ++reserved_;
}

void Temporaries::Release() {
  const int first = (*writer_->saved())[0];
  if (writer_->may_keep() && first_ == 0 && spilled_ == 1 && first != kRcx) writer_->Keep(first);
  for (int i = writer_->kept() == HS_NOT_SAVED ? 0 : 1; i < spilled_; ++i) {
    writer_->code()->LoadField((*writer_->saved())[i], BlockWriter::SaveSlot(i));
  }
  Forget();
}

void Temporaries::Forget() {
  writer_->LeaveR11();
  writer_->ForgetSaved();
  if (spilled_ > first_) writer_->MarkFault();
  spilled_ = first_;
  reserved_ = 0;
  r11_taken_ = false;
}

Substitution::Substitution(const GuestInstruction& instruction, BlockWriter* writer,
                           Temporaries* temporaries)
    : instruction_(instruction),
      writer_(writer),
      temporaries_(temporaries),
      memory_(EncodedMemory(instruction)),
      reserved_{{.guest = kR10, .field = HS_BLOCK_FIELD(guest_r10)},
                {.guest = kR11, .field = HS_BLOCK_FIELD(guest_r11)}} {
  for (const ZydisDecodedOperand& operand : instruction.Operands()) NoteOperand(operand);
}

void Substitution::NoteOperand(const ZydisDecodedOperand& operand) {
  for (Reserved& reserved : reserved_) {
    if (operand.type == ZYDIS_OPERAND_TYPE_MEMORY &&
        (GeneralRegister(operand.mem.base) == reserved.guest ||
         GeneralRegister(operand.mem.index) == reserved.guest)) {
      reserved.read = true;
    }
    if (operand.type != ZYDIS_OPERAND_TYPE_REGISTER ||
        GeneralRegister(operand.reg.value) != reserved.guest) {
      continue;
    }
    CHECK(Encoding::FieldOf(operand) >= 0);
    if (!OverwritesWhole(instruction_, operand)) reserved.read = true;
    if ((operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0) reserved.written = true;
  }
}

bool Substitution::IsNeeded() const {
  for (const Reserved& reserved : reserved_) {
    if (reserved.read || reserved.written) return true;
  }
  if (memory_ == nullptr) return false;
  const HostAddress address = AddressOf(instruction_, *memory_);
  if (address.segment == SegmentBase::kGs) return true;
  return address.from_rip && memory_->encoding == ZYDIS_OPERAND_ENCODING_MODRM_RM;
}

void Substitution::LoadRegisters() {
  const bool r11_is_guests = writer_->r11_is_guests();
  for (Reserved& reserved : reserved_) {
    if (!reserved.read && !reserved.written) continue;
    reserved.host = temporaries_->Take();
    const bool in_place = IsR11(reserved) && r11_is_guests;
    if (reserved.read && !in_place) writer_->code()->LoadField(reserved.host, reserved.field);
  }
}

int Substitution::Host(int number) const {
  for (const Reserved& reserved : reserved_) {
    if (reserved.guest == number) return reserved.host;
  }
  return number;
}

HostAddress Substitution::Reachable(HostAddress address) {
  Assembler* code = writer_->code();
  const auto target = static_cast<uint64_t>(address.displacement);
  if (!address.from_rip || code->Reaches(target)) return address;
  address.from_rip = false;
  if (address.displacement == static_cast<int32_t>(address.displacement)) return address;
  address.base = temporaries_->Take();
  address.displacement = 0;
  code->MoveConstant(address.base, target);
  return address;
}

// With the base of its segment, in the thread block's field, added.
HostAddress Substitution::WithBase(HostAddress address, int base_field) {
  const int base = temporaries_->Take();
  address.segment = SegmentBase::kNone;
  if (address.narrow || address.from_rip || (address.base >= 0 && address.index >= 0)) {
    const int offset = temporaries_->Take();
    writer_->code()->Lea(offset, address);
    address = {.base = offset};
  }
  writer_->code()->LoadField(base, base_field);
  if (address.base < 0) {
    address.base = base;
  } else {
    address.index = base;
    address.scale = 1;
  }
  return address;
}

HostAddress Substitution::Address(bool flat) {
  CHECK(memory_ != nullptr);
  return Translate(AddressOf(instruction_, *memory_), flat);
}

HostAddress Substitution::Translate(HostAddress address, bool flat) {
  if (address.base >= 0) address.base = Host(address.base);
  if (address.index >= 0 && !address.vector_index) address.index = Host(address.index);
  address = Reachable(address);
  if (address.segment == SegmentBase::kGs) {
    address = WithBase(address, HS_BLOCK_FIELD(gs_base));
  } else if (address.segment == SegmentBase::kFs && flat) {
    address = WithBase(address, HS_BLOCK_FIELD(fs_base));
  }
  return flat ? Shiftable(address) : address;
}

// So that HS_GS_SHIFT can be added to the displacement.
HostAddress Substitution::Shiftable(const HostAddress& address) {
  constexpr int64_t kRoom = 4096;  // with what follows in the operand
  const bool far = !address.from_rip && (address.displacement > INT32_MAX - kRoom ||
                                         address.displacement < INT32_MIN + kRoom);
  if (address.vector_index || !(address.narrow || far)) return address;
  const int computed = temporaries_->Take();
  writer_->code()->Lea(computed, address);
  return {.base = computed};
}

void Substitution::Apply(Encoding* encoding) const {
  for (const ZydisDecodedOperand& operand : instruction_.Operands()) {
    const int field = Encoding::FieldOf(operand);
    if (field < 0) continue;
    const int guest = GeneralRegister(operand.reg.value);
    if (guest == kR10 || guest == kR11) {
      encoding->SetRegister(static_cast<Encoding::Field>(field), Host(guest));
    }
  }
}

void Substitution::StoreRegisters() {
  for (const Reserved& reserved : reserved_) {
    if (reserved.written) writer_->code()->StoreField(reserved.field, reserved.host);
    if (IsR11(reserved)) writer_->KeepR11();
  }
}

}  // namespace hindsight
