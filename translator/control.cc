#include "translator/control.h"

#include "isa/registers.h"
#include "translator/checked_access.h"
#include "translator/indirect.h"
#include "translator/order_entry.h"
#include "translator/record_stack.h"
#include "translator/substitution.h"

namespace hindsight {
namespace {

constexpr uint8_t kShortJump = 0xeb;
constexpr int64_t kWordBytes = 8;

// Whether the view has what is read and written.
bool UsesView(Flavour flavour, const BlockWriter& writer) {
  return flavour == Flavour::kRecord && !writer.direct();
}

// Puts the target of an indirect jump or call into r11.
bool LoadTarget(const GuestInstruction& instruction, Flavour flavour, BlockWriter* writer) {
  Temporaries temporaries(instruction, writer);
  Substitution substitution(instruction, writer, &temporaries);
  substitution.LoadRegisters();
  if (EncodedMemory(instruction) == nullptr) {
    const int target = substitution.Host(GeneralRegister(instruction.operands[0].reg.value));
    if (target != kR11) writer->code()->Move(kR11, target);
  } else {
    const bool checked = UsesView(flavour, *writer);
    const HostAddress address = substitution.Address(/*flat=*/checked);
    const int target = checked ? temporaries.Take() : int{kR11};
    writer->MarkFault();
    if (!checked) {
      writer->code()->Load(kR11, address);
    } else if (!WriteCheck(address, kWordBytes, target, writer, &temporaries)) {
      return false;
    }
    if (target != kR11) writer->code()->Move(kR11, target);
  }
  temporaries.Release();
  writer->LoseR11();
  return !temporaries.failed();
}

// Pushes the guest's return address. With `keep_r11`, r11 stays.
void PushReturn(const GuestInstruction& instruction, bool keep_r11, Flavour flavour,
                BlockWriter* writer) {
  if (UsesView(flavour, *writer)) return WritePushConstant(instruction.next(), keep_r11, writer);
  Assembler* code = writer->code();
  const uint64_t value = instruction.next();
  const auto as_signed = static_cast<int64_t>(value);
  if (as_signed == static_cast<int32_t>(as_signed)) {
    code->Byte(0x68);  // push $imm32
    code->Word32(value);
    return;
  }
  if (keep_r11) code->StoreField(BlockWriter::SaveSlot(0), kR11);
  code->MoveConstant(kR11, value);
  code->Bytes({0x41, 0x53});  // push %r11
  if (keep_r11) code->LoadField(kR11, BlockWriter::SaveSlot(0));
}

void WriteReturn(const GuestInstruction& instruction, Flavour flavour, BlockWriter* writer) {
  const auto released = static_cast<int64_t>(instruction.decoded.raw.imm[0].value.u);
  const bool record = flavour == Flavour::kRecord;
  const bool to_place = record && released == 0 && !writer->place().ordered;
  if (to_place) writer->TellReturn(-kWordBytes);
  if (UsesView(flavour, *writer)) {
    WritePopTarget(released, writer);
  } else {
    writer->code()->Bytes({0x41, 0x5b});  // pop %r11
    if (released != 0) writer->code()->Lea(kRsp, {.base = kRsp, .displacement = released});
  }
  if (to_place) return EmitReturn(writer->code());
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

// An operand in memory is told, for who executes the instruction.
void WriteRefused(const GuestInstruction& instruction, Flavour flavour, BlockWriter* writer) {
  const ZydisDecodedOperand* memory = EncodedMemory(instruction);
  if (flavour != Flavour::kRecord || memory == nullptr ||
      memory->mem.type == ZYDIS_MEMOP_TYPE_VSIB) {
    writer->code()->Jump(writer->Exit(kHsExitInstruction));
    return;
  }
  Temporaries temporaries(instruction, writer);
  Substitution substitution(instruction, writer, &temporaries);
  substitution.LoadRegisters();
  const HostAddress address = substitution.Address(/*flat=*/true);
  writer->code()->Jump(writer->ExitWith(kHsExitInstruction, address));
  temporaries.Forget();
}

}  // namespace

bool WriteControl(const GuestInstruction& instruction, Control control, uint32_t flags_at_return,
                  Flavour flavour, BlockWriter* writer) {
  const ReturnPlace return_to = {instruction.next(), flags_at_return};
  switch (control) {
    case Control::kJump:
      writer->Branch(BranchTarget(instruction));
      return true;
    case Control::kConditional:
      writer->BranchIf(instruction.decoded.opcode & 0xf, BranchTarget(instruction));
      writer->Branch(instruction.next());
      return true;
    case Control::kLoop:
      WriteLoop(instruction, writer);
      return true;
    case Control::kCall:
      PushReturn(instruction, false, flavour, writer);
      WriteOrder(writer->place().flags_after, writer);
      writer->BranchFromCall(BranchTarget(instruction), return_to);
      return true;
    case Control::kIndirectJump:
      if (!LoadTarget(instruction, flavour, writer)) return false;
      writer->BranchToR11(0);
      return true;
    case Control::kIndirectCall:
      if (!LoadTarget(instruction, flavour, writer)) return false;
      PushReturn(instruction, true, flavour, writer);
      writer->BranchFromCallToR11(kWordBytes, return_to);
      return true;
    case Control::kReturn:
      WriteReturn(instruction, flavour, writer);
      return true;
    case Control::kSyscall:
      writer->code()->Jump(writer->Exit(kHsExitSyscall));
      return true;
    case Control::kRefused:
      WriteRefused(instruction, flavour, writer);
      return true;
    case Control::kNone:
      break;
  }
  return false;
}

void WriteSideExit(const GuestInstruction& instruction, BlockWriter* writer) {
  writer->BranchIf(instruction.decoded.opcode & 0xf, BranchTarget(instruction));
  writer->LeaveR11();
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
