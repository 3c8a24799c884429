#include "translator/control.h"

#include "base/check.h"
#include "isa/registers.h"
#include "translator/record.h"
#include "translator/substitution.h"

namespace hindsight {
namespace {

constexpr uint8_t kShortJump = 0xeb;
constexpr int64_t kWordBytes = 8;

// Puts the target of an indirect jump or call into r11.
void LoadTarget(const GuestInstruction& instruction, bool record, BlockWriter* writer) {
  Temporaries temporaries(instruction, writer);
  Substitution substitution(instruction, writer, &temporaries);
  substitution.LoadRegisters();
  if (EncodedMemory(instruction) == nullptr) {
    const int target = substitution.Host(GeneralRegister(instruction.operands[0].reg.value));
    if (target != kR11) writer->code()->Move(kR11, target);
  } else {
    HostAddress address = substitution.Address();
    if (record) {
      // Into r11 first: then it is the address, which is read from the view once compared.
      temporaries.Spill(kRcx);
      const int linear = temporaries.TakeSpilled(), seen = temporaries.TakeSpilled();
      writer->code()->Lea(linear, address);
      if (address.segment == SegmentBase::kFs) {
        writer->code()->LoadField(seen, HS_BLOCK_FIELD(fs_base));
        writer->code()->Lea(linear, {.base = linear, .index = seen});
      }
      CheckByRcx({.base = linear}, seen, writer);
      writer->code()->Move(kR11, seen);
    } else {
      writer->MarkFault();
      writer->code()->Load(kR11, address);
    }
  }
  temporaries.Release();
}

// Pushes the guest's return address. With `keep_r11`, r11 stays.
void PushReturn(const GuestInstruction& instruction, bool keep_r11, bool record,
                BlockWriter* writer) {
  Assembler* code = writer->code();
  const uint64_t value = instruction.next();
  const auto as_signed = static_cast<int64_t>(value);
  if (!record && as_signed == static_cast<int32_t>(as_signed)) {
    code->Byte(0x68);  // push $imm32
    code->Word32(value);
    return;
  }
  if (keep_r11) code->StoreField(BlockWriter::SaveSlot(0), kR11);
  code->MoveConstant(kR11, value);
  if (record) StorePushed(writer);
  code->Bytes({0x41, 0x53});  // push %r11
  if (keep_r11) code->LoadField(kR11, BlockWriter::SaveSlot(0));
}

void WriteReturn(const GuestInstruction& instruction, BlockWriter* writer) {
  Assembler* code = writer->code();
  code->Bytes({0x41, 0x5b});  // pop %r11
  const auto released = static_cast<int64_t>(instruction.decoded.raw.imm[0].value.u);
  if (released != 0) code->Lea(kRsp, {.base = kRsp, .displacement = released});
  writer->BranchToR11(-kWordBytes - released);
}

// Opcodes e0 to e3 have only 8-bit displacements: they jump over the jump that is not taken.
void WriteLoop(const GuestInstruction& instruction, BlockWriter* writer) {
  Assembler* code = writer->code();
  if (instruction.decoded.address_width == 32) code->Byte(0x67);
  code->Byte(instruction.decoded.opcode);
  code->Byte(2);
  Label not_taken;
  code->Byte(kShortJump);
  not_taken.rel8.push_back(code->offset());
  code->Byte(0);
  writer->Branch(BranchTarget(instruction));
  code->Bind(&not_taken);
  writer->Branch(instruction.next());
}

void WriteRefused(const GuestInstruction& instruction, bool record, BlockWriter* writer) {
  const ZydisDecodedOperand* memory = EncodedMemory(instruction);
  if (!record || memory == nullptr || AddressOf(instruction, *memory).vector_index) {
    writer->code()->Jump(writer->Exit(kHsExitInstruction));
    return;
  }
  Temporaries temporaries(instruction, writer);
  Substitution substitution(instruction, writer, &temporaries);
  substitution.LoadRegisters();
  HostAddress address = substitution.Address();
  if (address.segment == SegmentBase::kFs) {
    const int linear = temporaries.Take(), base = temporaries.Take();
    writer->code()->Lea(linear, address);
    writer->code()->LoadField(base, HS_BLOCK_FIELD(fs_base));
    address = {.base = linear, .index = base};
  }
  writer->code()->Jump(writer->ExitWith(kHsExitInstruction, address));
}

}  // namespace

void WriteControl(const GuestInstruction& instruction, Control control, Flavour flavour,
                  BlockWriter* writer) {
  const bool record = flavour == Flavour::kRecord;
  switch (control) {
    case Control::kJump:
      return writer->Branch(BranchTarget(instruction));
    case Control::kConditional:
      writer->BranchIf(instruction.decoded.opcode & 0xf, BranchTarget(instruction));
      return writer->Branch(instruction.next());
    case Control::kLoop:
      return WriteLoop(instruction, writer);
    case Control::kCall:
      PushReturn(instruction, false, record, writer);
      return writer->Branch(BranchTarget(instruction));
    case Control::kIndirectJump:
      LoadTarget(instruction, record, writer);
      return writer->BranchToR11(0);
    case Control::kIndirectCall:
      LoadTarget(instruction, record, writer);
      PushReturn(instruction, true, record, writer);
      return writer->BranchToR11(kWordBytes);
    case Control::kReturn:
      if (record) CheckMemory({.base = kRsp}, 8, writer);
      return WriteReturn(instruction, writer);
    case Control::kSyscall:
      return writer->code()->Jump(writer->Exit(kHsExitSyscall));
    case Control::kRefused:
      return WriteRefused(instruction, record, writer);
    case Control::kNone:
      break;
  }
  CHECK(false);
}

bool MayCloseCycle(const GuestInstruction& instruction, Control control) {
  switch (control) {
    case Control::kJump:
    case Control::kConditional:
    case Control::kLoop:
    case Control::kCall:
      return BranchTarget(instruction) <= instruction.pc;
    case Control::kIndirectJump:
    case Control::kIndirectCall:
    case Control::kReturn:
      return true;
    default:
      return false;
  }
}

}  // namespace hindsight
