#include "translator/record_stack.h"

#include "isa/registers.h"
#include "translator/checked_access.h"
#include "translator/guest/encoding.h"
#include "translator/substitution.h"

namespace hindsight {
namespace {

constexpr int kWordBytes = 8;
constexpr HostAddress kStackTop = {.base = kRsp};

bool FitsImmediate(uint64_t value) {
  return static_cast<int64_t>(value) == static_cast<int32_t>(value);
}

class StackWriter {
 public:
  StackWriter(const GuestInstruction& instruction, BlockWriter* writer)
      : instruction_(instruction),
        writer_(writer),
        code_(writer->code()),
        temporaries_(instruction, writer),
        substitution_(instruction, writer, &temporaries_),
        bytes_(instruction.decoded.operand_width == 16 ? 2 : kWordBytes) {}

  bool Write(RecordClass kind) {
    substitution_.LoadRegisters();
    writer_->MarkFault();
    const bool written = WriteAccess(kind) && !temporaries_.failed();
    substitution_.StoreRegisters();
    temporaries_.Release();
    return written;
  }

 private:
  bool WriteAccess(RecordClass kind) {
    switch (kind) {
      case RecordClass::kPush:
        return WritePush();
      case RecordClass::kPop:
        return EncodedMemory(instruction_) == nullptr ? WritePop() : WritePopToMemory();
      case RecordClass::kPushFlags:
        return WritePushThrough();
      case RecordClass::kPopFlags:
        // Its operand cannot be elsewhere.
        return !writer_->trusts_view() &&
               WriteComparison(kStackTop, bytes_, TakeData(), writer_, &temporaries_) && Copy();
      case RecordClass::kEnter:
        return WriteEnter();
      default:
        return WriteLeave();
    }
  }

  bool Check(const HostAddress& address, int data) {
    return WriteCheck(address, bytes_, data, writer_, &temporaries_);
  }

  bool Copy() {
    code_->Bytes(instruction_.Bytes());
    return true;
  }

  int TakeData() {
    const int data = temporaries_.Take();
    writer_->MarkFault();
    return data;
  }

  // Below the stack pointer, in the view.
  HostAddress NewTop() const { return InView({.base = kRsp, .displacement = -bytes_}); }

  void PushRegister(int number) {
    code_->StoreBytes(bytes_, NewTop(), number);
    if (bytes_ == 2) code_->Byte(0x66);
    if (number >= 8) code_->Byte(0x41);
    code_->Byte(0x50 | (number & 7));
  }

  void DropTop() { code_->Lea(kRsp, {.base = kRsp, .displacement = bytes_}); }

  bool WritePush() {
    const ZydisDecodedOperand& operand = instruction_.operands[0];
    if (operand.type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
      code_->Operation({.bytes = {0xc7},
                        .wide = bytes_ == 8,
                        .prefix = static_cast<uint8_t>(bytes_ == 2 ? 0x66 : 0)},
                       0, NewTop(), bytes_ == 2 ? 2 : 4);
      const auto value = static_cast<uint64_t>(operand.imm.value.s);
      code_->Byte(value);
      code_->Byte(value >> 8);
      if (bytes_ == 8) code_->Byte(value >> 16);
      if (bytes_ == 8) code_->Byte(value >> 24);
      return Copy();
    }
    if (operand.type == ZYDIS_OPERAND_TYPE_MEMORY) {
      const HostAddress address = substitution_.Address(/*flat=*/true);
      const int data = TakeData();
      if (!Check(address, data)) return false;
      PushRegister(data);
      return true;
    }
    const int number = GeneralRegister(operand.reg.value);
    if (number < 0) return WritePushThrough();  // fs, gs
    PushRegister(substitution_.Host(number));
    return true;
  }

  // What only the instruction itself knows: it pushes that, and after it is known, it is pushed as
  // it should be.
  bool WritePushThrough() {
    const int data = TakeData();
    Copy();
    if (bytes_ == 2) code_->Byte(0x66);
    if (data >= 8) code_->Byte(0x41);
    code_->Byte(0x58 | (data & 7));
    PushRegister(data);
    return true;
  }

  bool WritePop() {
    const int number = GeneralRegister(instruction_.operands[0].reg.value);
    if (number < 0) return false;
    const int to = substitution_.Host(number);
    if (bytes_ == 8 && to != kRsp && MayChangeFlags(*writer_) && !writer_->trusts_view()) {
      writer_->PopChecked(to);
      return true;
    }
    if (bytes_ == 8 && to != kRsp && (to != kRcx || MayChangeFlags(*writer_))) {
      if (!Check(kStackTop, to)) return false;
      DropTop();
      return true;
    }
    const int data = TakeData();
    if (!Check(kStackTop, data)) return false;
    if (to == kRsp) {
      if (bytes_ == 2) DropTop();
    } else {
      DropTop();
    }
    // mov %data,%to
    code_->Operation({.bytes = {0x89},
                      .wide = bytes_ == 8,
                      .prefix = static_cast<uint8_t>(bytes_ == 2 ? 0x66 : 0)},
                     data, to);
    return true;
  }

  bool WritePopToMemory() {
    // The address is computed with the stack pointer as it is afterwards.
    HostAddress address = AddressOf(instruction_, *EncodedMemory(instruction_));
    if (address.base == kRsp) address.displacement += bytes_;
    if (!HasRoom(address, bytes_)) return false;
    address = substitution_.Translate(address, /*flat=*/true);
    const int data = TakeData();
    if (writer_->direct()) {
      code_->LoadBytes(bytes_, data, kStackTop);
    } else {
      if (!Check(kStackTop, data)) return false;
      code_->StoreBytes(bytes_, InView(address), data);
    }
    code_->StoreBytes(bytes_, address, data);
    DropTop();
    return true;
  }

  bool WriteEnter() {
    // Nested ones read memory.
    if (instruction_.operands[1].imm.value.u % 32 != 0 || bytes_ != 8) return false;
    code_->Store(NewTop(), kRbp);
    return Copy();
  }

  bool WriteLeave() {
    if (bytes_ != 8) return false;
    const int data = TakeData();
    if (!Check({.base = kRbp}, data)) return false;
    code_->Lea(kRsp, {.base = kRbp, .displacement = kWordBytes});
    code_->Move(kRbp, data);
    return true;
  }

  const GuestInstruction& instruction_;
  BlockWriter* writer_;
  Assembler* code_;
  Temporaries temporaries_;
  Substitution substitution_;
  const int bytes_;
};

}  // namespace

bool WriteStackAccess(const GuestInstruction& instruction, RecordClass kind, BlockWriter* writer) {
  return StackWriter(instruction, writer).Write(kind);
}

bool WriteTranslateByte(const GuestInstruction& instruction, BlockWriter* writer) {
  Assembler* code = writer->code();
  if ((instruction.decoded.attributes & ZYDIS_ATTRIB_HAS_SEGMENT_FS) != 0) return false;
  Temporaries temporaries(instruction, writer);
  HostAddress address = {.base = kRbx, .index = temporaries.Take()};
  address.narrow = instruction.decoded.address_width == 32;
  // movzbl %al,%index
  code->Operation({.bytes = {0x0f, 0xb6}}, address.index, kRax);
  const int data = temporaries.Take();
  writer->MarkFault();
  if (!WriteCheck(address, 1, data, writer, &temporaries)) return false;
  // mov %data,%al
  code->Operation({.bytes = {0x88}, .byte_register = true}, data, kRax);
  temporaries.Release();
  return !temporaries.failed();
}

void WritePushConstant(uint64_t value, bool keep_r11, BlockWriter* writer) {
  Assembler* code = writer->code();
  const HostAddress top = InView({.base = kRsp, .displacement = -kWordBytes});
  if (FitsImmediate(value)) {
    code->Operation({.bytes = {0xc7}, .wide = true}, 0, top, 4);
    code->Word32(value);
    code->Byte(0x68);  // push $imm32
    code->Word32(value);
    return;
  }
  if (keep_r11) code->StoreField(BlockWriter::SaveSlot(0), kR11);
  code->MoveConstant(kR11, value);
  code->Store(top, kR11);
  code->Bytes({0x41, 0x53});  // push %r11
  if (keep_r11) code->LoadField(kR11, BlockWriter::SaveSlot(0));
}

void WritePopTarget(int64_t released, BlockWriter* writer) {
  Assembler* code = writer->code();
  if (writer->trusts_view()) {
    code->Load(kR11, InView(kStackTop));
    code->Lea(kRsp, {.base = kRsp, .displacement = kWordBytes + released});
    return;
  }
  if (MayChangeFlags(*writer)) {
    writer->PopChecked(kR11);
    if (released != 0) code->Lea(kRsp, {.base = kRsp, .displacement = released});
    return;
  }
  constexpr int kSlot = 1;
  Label same;
  Label* miss = writer->Miss(kStackTop, kWordBytes, kSlot);
  // As in WriteCheck.
  code->Load(kR11, kStackTop);
  code->StoreField(BlockWriter::SaveSlot(kSlot), kRcx);
  code->Load(kRcx, InView(kStackTop));
  code->Bytes({0x48, 0xf7, 0xd1});  // not %rcx
  code->Lea(kRcx, {.base = kRcx, .index = kR11, .displacement = 1});
  code->JumpIfRcxZero(&same);
  code->Jump(miss);
  code->Bind(&same);
  code->LoadField(kRcx, BlockWriter::SaveSlot(kSlot));
  writer->MayFailCheck(miss);
  code->Lea(kRsp, {.base = kRsp, .displacement = kWordBytes + released});
}

}  // namespace hindsight
