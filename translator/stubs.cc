#include "translator/stubs.h"

#include <cstddef>

#include "base/check.h"
#include "isa/registers.h"
#include "translator/assembler.h"
#include "translator/thread_block.h"

namespace hindsight {
namespace {

constexpr int SaveSlot(int i) {
  return HS_BLOCK_FIELD(save) + i * static_cast<int>(sizeof(uint64_t));
}

void LeaveToAgent(Assembler* code) {
  // jmp *gs:[agent_exit]
  code->Operation({.bytes = {0xff}}, 4, Field(HS_BLOCK_FIELD(agent_exit)));
}

void StoreConstant(int offset, uint32_t value, bool wide, Assembler* code) {
  code->Operation({.bytes = {0xc7}, .wide = wide}, 0, Field(offset), 4);
  code->Word32(value);
}

// Guest pc in r11. Goes to its translation, or leaves.
void EmitLookup(Assembler* code) {
  static_assert(HS_TABLE_ENTRIES == 0x10000 && sizeof(HsTableEntry) == 16);
  Label hit;
  code->StoreField(SaveSlot(0), kRax);
  code->StoreField(SaveSlot(1), kRcx);
  code->Operation({.bytes = {0x0f, 0xb7}}, kRax, kR11);  // movzwl %r11w,%eax
  code->Lea(kRax, {.base = kRax, .index = kRax});
  HostAddress entry = {
      .index = kRax, .scale = 8, .displacement = HS_TABLE_OFFSET, .segment = SegmentBase::kGs};
  code->Load(kRcx, entry);
  code->Lea(kRcx, {.base = kRcx, .index = kR11});
  code->JumpIfRcxZero(&hit);
  code->LoadField(kRax, SaveSlot(0));
  code->LoadField(kRcx, SaveSlot(1));
  code->StoreField(HS_BLOCK_FIELD(exit_guest_pc), kR11);
  StoreConstant(HS_BLOCK_FIELD(exit_kind), kHsExitIndirect, true, code);  // size and adjust too
  StoreConstant(HS_BLOCK_FIELD(exit_saved), 0xffffffff, false, code);
  StoreConstant(HS_BLOCK_FIELD(exit_flags_dead), 0, false, code);
  LeaveToAgent(code);
  code->Bind(&hit);
  entry.displacement += offsetof(HsTableEntry, host);
  code->Load(kR11, entry);
  code->LoadField(kRax, SaveSlot(0));
  code->LoadField(kRcx, SaveSlot(1));
  code->Bytes({0x41, 0xff, 0xe3});  // jmp *%r11
}

// Address of a struct HsExit in r11. Copies it into the block and leaves.
void EmitExit(Assembler* code) {
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
    code->Load(kRax, {.base = kR11, .displacement = static_cast<int64_t>(copy.from)});
    code->StoreField(copy.to, kRax);
  }
  code->LoadField(kRax, SaveSlot(kStubSlot));
  LeaveToAgent(code);
}

}  // namespace

Stubs EmitStubs(uint64_t host_address) {
  Assembler code(host_address);
  Stubs stubs;
  stubs.addresses.lookup = code.here();
  EmitLookup(&code);
  code.Align(16, 0x90);
  stubs.addresses.exit = code.here();
  EmitExit(&code);
  stubs.code = code.Take();
  CHECK(stubs.code.size() <= kStubBytes);
  return stubs;
}

}  // namespace hindsight
