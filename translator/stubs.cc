#include "translator/stubs.h"

#include <array>
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

void LeaveToAgent(Assembler* code) { code->JumpToField(HS_BLOCK_FIELD(agent_exit)); }

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
      {offsetof(HsExit, operation), HS_BLOCK_FIELD(exit_operation)},
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

// Below the stack pointer that a return has left is its target (ReturnTarget). The flags are aside,
// and the address of the return's struct HsExit is in SaveSlot(kReturnSlot).
void EmitSearchReturn(uint64_t indirect_exit, bool direct, Assembler* code) {
  constexpr int kHost = HS_BLOCK_FIELD(branch_host);
  Label miss;
  code->Move(kR11, kRax);
  code->StoreField(SaveSlot(1), kR9);
  code->Load(kR9, ReturnTarget(direct));
  const HostAddress entry = EmitTableEntry(kR9, kRax, code);
  code->CompareBytes(8, kR9, entry);
  code->JumpIf(kNotZero, &miss);
  code->Load(kRax, HostOfEntry(entry));
  code->StoreField(kHost, kRax);
  code->LoadField(kR9, SaveSlot(1));
  code->Move(kRax, kR11);
  code->JumpToField(kHost);

  code->Bind(&miss);
  code->StoreField(HS_BLOCK_FIELD(exit_guest_pc), kR9);
  code->LoadField(kR9, SaveSlot(1));
  EmitRestoreFlags(code);
  code->Move(kRax, kR11);
  code->LoadField(kR11, SaveSlot(kReturnSlot));
  code->JumpTo(indirect_exit);
}

constexpr std::array<uint16_t, 6> kStatusFlags = {0x1, 0x4, 0x10, 0x40, 0x80, 0x800};
constexpr uint32_t kLinkExits = 1 << kStatusFlags.size();
// Of one of them.
constexpr uint32_t kLinkExitBytes = 17;

uint32_t FlagsOf(uint32_t link_exit) {
  uint32_t flags = 0;
  for (size_t i = 0; i < kStatusFlags.size(); ++i) {
    if ((link_exit >> i & 1) != 0) flags |= kStatusFlags[i];
  }
  return flags;
}

// The guest's target in r11. Changes no flag.
void EmitLinkExits(Assembler* code) {
  Label leave;
  for (uint32_t i = 0; i < kLinkExits; ++i) {
    code->StoreConstant(4, Field(HS_BLOCK_FIELD(exit_flags_exact)),
                        static_cast<int32_t>(FlagsOf(i)));
    code->Jump(&leave);
    CHECK(code->offset() % kLinkExitBytes == 0);
  }
  code->Bind(&leave);
  code->StoreField(HS_BLOCK_FIELD(exit_guest_pc), kR11);
  code->StoreConstant(8, Field(HS_BLOCK_FIELD(exit_kind)), kHsExitLink);  // size and adjust: 0
  code->StoreConstant(4, Field(HS_BLOCK_FIELD(exit_saved)), -1);          // HS_NOT_SAVED
  LeaveToAgent(code);
}

static_assert(offsetof(HsExit, orderable) == offsetof(HsExit, flags_exact) + 2);

}  // namespace

uint64_t StubAddresses::LinkExit(uint16_t flags_exact) const {
  uint32_t number = 0;
  for (size_t i = 0; i < kStatusFlags.size(); ++i) {
    if ((flags_exact & kStatusFlags[i]) != 0) number |= 1 << i;
  }
  CHECK(FlagsOf(number) == flags_exact);
  return link_exits + number * kLinkExitBytes;
}

Stubs EmitStubs(uint64_t host_address, bool direct) {
  Assembler code(host_address);
  Stubs stubs;
  stubs.addresses.exit = code.here();
  EmitExit(true, &code);
  code.Align(16, 0x90);
  stubs.addresses.indirect_exit = code.here();
  EmitExit(false, &code);
  while (code.offset() < HS_SEARCH_RETURN) code.Byte(kInt3);
  stubs.addresses.search_return = code.here();
  CHECK(stubs.addresses.search_return == host_address + HS_SEARCH_RETURN);
  EmitSearchReturn(stubs.addresses.indirect_exit, direct, &code);
  while (code.offset() % kLinkExitBytes != 0) code.Byte(kInt3);
  stubs.addresses.link_exits = code.here();
  EmitLinkExits(&code);
  stubs.code = code.Take();
  CHECK(stubs.code.size() <= kStubBytes);
  return stubs;
}

}  // namespace hindsight
