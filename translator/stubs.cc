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
constexpr uint32_t kFlagSets = 1 << kStatusFlags.size();
// Of what is there for each.
constexpr uint32_t kExitBytes = 17;

uint32_t FlagsOf(uint32_t set) {
  uint32_t flags = 0;
  for (size_t i = 0; i < kStatusFlags.size(); ++i) {
    if ((set >> i & 1) != 0) flags |= kStatusFlags[i];
  }
  return flags;
}

uint64_t ExitFor(uint16_t flags_exact, uint64_t exits) {
  uint32_t set = 0;
  for (size_t i = 0; i < kStatusFlags.size(); ++i) {
    if ((flags_exact & kStatusFlags[i]) != 0) set |= 1 << i;
  }
  CHECK(FlagsOf(set) == flags_exact);
  return exits + set * kExitBytes;
}

// Exits that need no struct HsExit: one for each set of flags that are the guest's, whose pc is in
// r11. They change no flag. Returns where they begin.
uint64_t EmitExits(HsExitKind kind, bool with_adjust, Assembler* code) {
  const uint64_t exits = code->here();
  const uint32_t first = code->offset();
  Label leave;
  for (uint32_t set = 0; set < kFlagSets; ++set) {
    CHECK(code->offset() == first + set * kExitBytes);
    // With exit_orderable, which is HS_NOT_ORDERED.
    code->StoreConstant(4, Field(HS_BLOCK_FIELD(exit_flags_exact)),
                        static_cast<int32_t>(FlagsOf(set)));
    code->Jump(&leave);
  }
  code->Bind(&leave);
  code->StoreField(HS_BLOCK_FIELD(exit_guest_pc), kR11);
  // With exit_size, and exit_adjust: 0.
  code->StoreConstant(with_adjust ? 4 : 8, Field(HS_BLOCK_FIELD(exit_kind)), kind);
  code->StoreConstant(4, Field(HS_BLOCK_FIELD(exit_saved)), -1);  // HS_NOT_SAVED
  LeaveToAgent(code);
  return exits;
}

static_assert(offsetof(HsThreadBlock, exit_size) == offsetof(HsThreadBlock, exit_kind) + 2 &&
              offsetof(HsThreadBlock, exit_adjust) == offsetof(HsThreadBlock, exit_kind) + 4 &&
              offsetof(HsThreadBlock, exit_orderable) ==
                  offsetof(HsThreadBlock, exit_flags_exact) + 2);

}  // namespace

uint64_t StubAddresses::LinkExit(uint16_t flags_exact) const {
  return ExitFor(flags_exact, link_exits);
}

uint64_t StubAddresses::CounterExit(uint16_t flags_exact) const {
  return ExitFor(flags_exact, counter_exits);
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
  stubs.addresses.link_exits = EmitExits(kHsExitLink, /*with_adjust=*/false, &code);
  stubs.addresses.counter_exits = EmitExits(kHsExitCounter, /*with_adjust=*/true, &code);
  stubs.code = code.Take();
  CHECK(stubs.code.size() <= kStubBytes);
  return stubs;
}

}  // namespace hindsight
