#include "translator/stubs.h"

#include <cstddef>

#include "base/check.h"
#include "isa/registers.h"
#include "translator/host/assembler.h"
#include "translator/indirect.h"
#include "translator/thread_block.h"

namespace hindsight {
namespace {

constexpr uint8_t kInt3 = 0xcc;

constexpr int SaveSlot(int i) {
  return HS_BLOCK_FIELD(save) + i * static_cast<int>(sizeof(uint64_t));
}

void LeaveToAgent(Assembler* code) {
  // jmp *gs:[agent_exit]
  code->Operation({.bytes = {0xff}}, 4, Field(HS_BLOCK_FIELD(agent_exit)));
}

// Address of a struct HsExit in r11. Copies it into the block, without its first word if the caller
// has set exit_guest_pc, and leaves.
void EmitExit(bool with_pc, Assembler* code) {
  struct Copy {
    size_t from;
    int to;
  };
  static constexpr Copy kCopies[] = {
      {offsetof(HsExit, guest_pc), HS_BLOCK_FIELD(exit_guest_pc)},
      {offsetof(HsExit, host_pc), HS_BLOCK_FIELD(exit_host_pc)},
      {offsetof(HsExit, link_or_operation), HS_BLOCK_FIELD(exit_link)},
      {offsetof(HsExit, kind), HS_BLOCK_FIELD(exit_kind)},  // size and adjust too
      {offsetof(HsExit, saved), HS_BLOCK_FIELD(exit_saved)},
  };
  code->StoreField(SaveSlot(kStubSlot), kRax);
  for (const Copy& copy : kCopies) {
    if (copy.from == offsetof(HsExit, guest_pc) && !with_pc) continue;
    code->Load(kRax, {.base = kR11, .displacement = static_cast<int64_t>(copy.from)});
    code->StoreField(copy.to, kRax);
  }
  code->LoadField(kRax, SaveSlot(kStubSlot));
  LeaveToAgent(code);
}

// Seen from the stack pointer that a return has left: its target, and in the call stack what was
// pushed by the call that had left the stack pointer below that.
constexpr HostAddress kTarget = {.base = kRsp, .displacement = -8, .segment = SegmentBase::kGs};
constexpr int64_t kPushed = -2 * int64_t{sizeof(uint64_t)};

// Goes where the call has pushed that left the stack pointer as it was before the return, if that
// is the place after a call of the return's target. r11: rax. Changes rax.
void ReturnToPushed(Label* search, Assembler* code) {
  code->LoadField(kRax, HS_BLOCK_FIELD(call_stack));
  code->Bytes({0x66, 0x89, 0xe0});  // mov %sp,%ax
  code->Load(kRax, {.base = kRax, .displacement = kPushed});
  code->Bytes({0x48, 0x85, 0xc0});  // test %rax,%rax
  code->JumpIf(kZero, search);
  code->Bytes({0x81, 0x38});  // cmpl $HS_RETURN_CODE,(%rax)
  code->Word32(HS_RETURN_CODE);
  code->JumpIf(kNotZero, search);
  code->Load(kRax, {.base = kRax, .displacement = HS_RETURN_PC});
  code->CompareBytes(8, kRax, kTarget);
  code->JumpIf(kNotZero, search);
  code->Move(kRax, kR11);
  code->Move(kR11, kRsp);
  EmitCallStack(code);
  code->Lea(kRsp, {.base = kRsp, .displacement = kPushed});
  code->Byte(0xc3);
}

// Below the stack pointer that a return has left is its target, which the view has as it was
// compared. rax, the flags aside: as in the block. Address of the return's struct HsExit in r11.
void EmitReturnTo(uint64_t indirect_exit, Assembler* code) {
  Label search, miss;
  code->StoreField(SaveSlot(0), kR11);
  code->Move(kR11, kRax);
  ReturnToPushed(&search, code);

  code->Bind(&search);
  code->StoreField(SaveSlot(1), kR9);
  code->Load(kR9, kTarget);
  const HostAddress entry = EmitTableEntry(kR9, kRax, HS_RETURNS_OFFSET, code);
  code->CompareBytes(8, kR9, entry);
  code->JumpIf(kNotZero, &miss);
  code->Load(kRax, HostOfEntry(entry));
  code->StoreField(HS_BLOCK_FIELD(return_host), kRax);
  code->LoadField(kR9, SaveSlot(1));
  code->Move(kRax, kR11);
  EmitReturn(code);

  code->Bind(&miss);
  code->StoreField(HS_BLOCK_FIELD(exit_guest_pc), kR9);
  code->LoadField(kR9, SaveSlot(1));
  EmitRestoreFlags(code);
  code->Move(kRax, kR11);
  code->LoadField(kR11, SaveSlot(0));
  code->JumpTo(indirect_exit);

  while (code->offset() % kStubBytes != HS_STUB_FAULT) code->Byte(kInt3);
  code->Jump(&search);
}

}  // namespace

Stubs EmitStubs(uint64_t host_address) {
  Assembler code(host_address);
  Stubs stubs;
  stubs.addresses.exit = code.here();
  EmitExit(true, &code);
  code.Align(16, 0x90);
  stubs.addresses.indirect_exit = code.here();
  EmitExit(false, &code);
  code.Align(64, 0x90);  // a line of the cache: returns are many
  stubs.addresses.return_to = code.here();
  EmitReturnTo(stubs.addresses.indirect_exit, &code);
  stubs.code = code.Take();
  CHECK(stubs.code.size() <= kStubBytes);
  return stubs;
}

}  // namespace hindsight
