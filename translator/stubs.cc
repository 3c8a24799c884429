#include "translator/stubs.h"

#include <cstddef>

#include "base/check.h"
#include "isa/registers.h"
#include "translator/host/assembler.h"
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

}  // namespace

Stubs EmitStubs(uint64_t host_address) {
  Assembler code(host_address);
  Stubs stubs;
  stubs.addresses.exit = code.here();
  EmitExit(true, &code);
  code.Align(16, 0x90);
  stubs.addresses.indirect_exit = code.here();
  EmitExit(false, &code);
  stubs.code = code.Take();
  CHECK(stubs.code.size() <= kStubBytes);
  return stubs;
}

}  // namespace hindsight
