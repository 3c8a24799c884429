#include "recorder/translate/agent/operations.h"

#include "recorder/translate/agent/boot.h"
#include "recorder/translate/agent/chaos.h"
#include "recorder/translate/agent/direct_memory.h"
#include "recorder/translate/agent/recording.h"
#include "recorder/translate/agent/run.h"
#include "recorder/translate/agent/stepping.h"
#include "recorder/translate/base/system.h"
#include "translator/runtime/operation.h"

namespace hindsight::agent {
namespace {

HsOperationRegisters registers_in_use[kLastThread + 1];

// What the hooks are called with.
struct Running {
  Thread* thread;
  // What others had changed; 0 bytes: nothing.
  uint64_t old_address;
  uint64_t old_bytes;
};

Thread* ThreadOf(void* context) { return static_cast<Running*>(context)->thread; }

void Import(void* context, uint64_t address, uint64_t bytes) {
  TakeRead(ThreadOf(context), address, bytes);
}

void ImportOld(void* context, uint64_t address, uint64_t bytes, const void* old) {
  auto* const running = static_cast<Running*>(context);
  TakeOld(running->thread, address, bytes, old);
  running->old_address = address;
  running->old_bytes = bytes;
}

void Locked(void* context, uint64_t /*address*/) { TakeLocked(ThreadOf(context)); }

void Load(const Thread& thread, HsOperationRegisters* to) {
  memcpy(to->gpr, thread.registers, sizeof(to->gpr));
  to->gpr[kR10] = thread.block->guest_r10;
  to->gpr[kR11] = thread.block->guest_r11;
  to->rflags = thread.flags;
}

// All but r10, which counts.
void Store(const HsOperationRegisters& from, Thread* thread) {
  const uint64_t counter = thread->registers[kR10];
  memcpy(thread->registers, from.gpr, sizeof(from.gpr));
  thread->registers[kR10] = counter;
  thread->block->guest_r10 = from.gpr[kR10];
  thread->block->guest_r11 = from.gpr[kR11];
  thread->flags = from.rflags;
}

// A state of its own comes before the instruction.
[[noreturn]] void Correct(Thread* thread) {
  const uint64_t before = thread->count;
  RecordCorrection(thread);
  thread->block->count_end += thread->count - before;
  TryAgain(thread, thread->block->exit_host_pc);
}

// Translated code goes on after the instruction, which is counted there.
[[noreturn]] void Order(Thread* thread, bool timed) {
  OrderInstruction(thread, timed);
  ++thread->count;  // what follows is told of a later state
  TryAgain(thread, thread->block->exit_host_pc);
}

// Memory has been changed, and the time taken, by translated code, but the view shows something
// else.
void Finish(Thread* thread, const HsOperation& operation, const HsOperationHooks& hooks,
            HsOperationRegisters* registers) {
  const HsThreadBlock& block = *thread->block;
  TakeLockedAt(thread, block.locked_time);
  HsFinishOperation(&operation, block.exit_address, block.locked_old, registers, &hooks);
}

}  // namespace

[[noreturn]] void RunOperation(Thread* thread) {
  const HsThreadBlock& block = *thread->block;
  const auto* operation = PointerTo<const HsOperation>(block.exit_operation);
  if (operation->kind == kHsCorrection) Correct(thread);
  if (operation->kind == kHsOrder) Order(thread, operation->done != 0);
  // The program wants misaligned accesses refused, and it is the processor that does so.
  constexpr uint64_t kAlignmentCheck = 0x40000;
  if ((thread->flags & kAlignmentCheck) != 0 && operation->done == 0) ExecuteNatively(thread);
  Running running = {thread, 0, 0};
  const HsOperationHooks hooks = {.context = &running,
                                  .distance = IsDirect(*thread) ? 0 : DistanceOf(thread->number),
                                  .fs_base = block.fs_base,
                                  .import = &Import,
                                  .import_old = &ImportOld,
                                  .locked = Boot().order_instructions != 0 ? &Locked : nullptr};
  HsOperationRegisters& registers = registers_in_use[thread->number];
  Load(*thread, &registers);
  const uint64_t host_pc = block.exit_host_pc;
  if (operation->done != 0) {
    Finish(thread, *operation, hooks, &registers);
  } else {
    if (operation->locked != 0) MayPause(thread);
    if (hooks.locked != nullptr && operation->locked != 0) ExpectLocked(thread);
    thread->operating = 1;
    HsRunOperation(operation, block.exit_address, &registers, &hooks);
    thread->operating = 0;
  }
  RecordLocked(thread);
  Store(registers, thread);
  ++thread->count;  // the state that it goes on in: faults of the view take it
  // Who has changed the one has often changed more, which is seen only now: after the instruction.
  if (running.old_bytes != 0) TakeMiss(thread, running.old_address, running.old_bytes);
  TryAgain(thread, host_pc);
}

void OrderInstruction(Thread* thread, bool timed) {
  if (timed) {
    TakeLockedAt(thread, thread->block->locked_time);
  } else {
    TakeLocked(thread);
  }
  RecordLocked(thread);
}

void AbandonOperation(Thread* thread) {
  thread->operating = 0;
  RecordLocked(thread);
  const HsOperationRegisters& registers = registers_in_use[thread->number];
  const uint64_t before[] = {thread->registers[kRcx], thread->registers[kRdi]};
  Store(registers, thread);
  if (registers.gpr[kRcx] == before[0]) return;
  // What it has stored a replay does not: it is imported when it is used next.
  constexpr uint64_t kElement = 8;
  const uint64_t after = registers.gpr[kRdi];
  RecordPart(thread, (before[1] < after ? before[1] : after) - kElement,
             (before[1] < after ? after : before[1]) + kElement);
}

}  // namespace hindsight::agent
