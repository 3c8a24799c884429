#include "recorder/translate/agent/run.h"

#include <asm/prctl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "recorder/translate/agent/boot.h"
#include "recorder/translate/agent/calls.h"
#include "recorder/translate/agent/chaos.h"
#include "recorder/translate/agent/client.h"
#include "recorder/translate/agent/entry.h"
#include "recorder/translate/agent/instructions.h"
#include "recorder/translate/agent/operations.h"
#include "recorder/translate/agent/orders.h"
#include "recorder/translate/agent/recording.h"
#include "recorder/translate/agent/signals.h"
#include "recorder/translate/agent/stepping.h"
#include "recorder/translate/base/system.h"

namespace hindsight::agent {
namespace {

// What r10 starts with: more than anybody counts. The first byte of a counter that has not run out
// is 0.
constexpr uint64_t kQuantum = uint64_t{1} << 55;

constexpr uint64_t kTrapFlag = 0x100;
constexpr uint64_t kUserCode = 0x33, kUserData = 0x2b;

// The thread's own tables are of translations that may no longer be.
void DropStaleTable(Thread* thread) {
  const uint32_t epoch = __atomic_load_n(&Control()->epoch, __ATOMIC_ACQUIRE);
  if (epoch == thread->epoch) return;
  thread->epoch = epoch;
  const uint64_t end = AddressOf(thread->table() + HS_TABLE_ENTRIES);
  const uint64_t start = DistanceOf(thread->number) + HS_TABLES_OFFSET;
  Call(SYS_madvise, start, end - start, MADV_DONTNEED);
  thread->table()[0].pc = HS_TABLE_EMPTY;
  HsForgetPlaces(thread->block, kLibraryArena);
}

uint64_t FindInMap(uint64_t pc) {
  const auto* map = PointerTo<const BlockMapEntry>(kBlockMap);
  for (uint64_t i = BlockMapIndex(pc);; i = (i + 1) % kBlockMapEntries) {
    const uint64_t entry_pc = __atomic_load_n(&map[i].guest_pc, __ATOMIC_ACQUIRE);
    if (entry_pc == pc) return __atomic_load_n(&map[i].host, __ATOMIC_ACQUIRE);
    if (entry_pc == 0) return 0;
  }
}

uint64_t Translate(Thread* thread, uint64_t pc) {
  return Ask(thread, RequestKind::kTranslate, pc).results[0];
}

// Where pc was translated to; 0: it cannot be.
uint64_t HostOf(Thread* thread, uint64_t pc) {
  const uint64_t host = FindInMap(pc) & ~kReadsFlags;
  if (host != 0 || pc == 0) return host;
  return Translate(thread, pc);
}

void EnterInTable(HsTableEntry* table, uint64_t pc, uint64_t host) {
  if (host == 0) return;
  table[pc % HS_TABLE_ENTRIES] = {.pc = pc, .host = host};
}

// Whether an entry that is still free has been wanted for this pc before: most are so once.
bool IsWantedAgain(HsTableEntry* entry, uint64_t pc) {
  if (entry->pc != 0 || entry->host == pc) return true;
  entry->host = pc;
  return false;
}

// `host`: where pc was translated to. An indirect branch has put the flags aside. 0: the table does
// without.
uint64_t HostOfIndirect(Thread* thread, uint64_t pc, uint64_t host) {
  if (host == 0 || FindInMap(pc) == host) return host;
  if (const uint64_t restoring = FindInMap(IndirectTo(pc))) return restoring;
  if (!IsWantedAgain(&thread->table()[pc % HS_TABLE_ENTRIES], pc)) return 0;
  return Ask(thread, RequestKind::kTranslateIndirect, pc).results[0];
}

// Recording is over, and nobody answers.
void LeaveIfOver(Thread* thread) {
  if (IsRecorded(*thread) && __atomic_load_n(&Control()->leave, __ATOMIC_ACQUIRE) != 0) {
    LeaveAll(thread, HS_END_CALL);
  }
}

// Another recorded process is to see the program, not the agent.
void LeaveIfTraced(Thread* thread) {
  const Tracing tracing = __atomic_load_n(&Control()->tracing, __ATOMIC_ACQUIRE);
  const bool wanted = tracing != Tracing::kNo && tracing != Tracing::kLeft;
  if (wanted && IsRecorded(*thread) && thread->alone == 0) LeaveAll(thread, HS_END_TRACED);
}

void PrepareToLeaveFor(Thread* thread, uint64_t host) {
  LeaveIfOver(thread);
  LeaveIfTraced(thread);
  if (host == 0) ExecuteNatively(thread);
  DropStaleTable(thread);
  uint64_t quantum = IsRecorded(*thread) ? InstructionsLeft(*thread) : kQuantum;
  const uint64_t until_pause = InstructionsUntilPause(*thread);
  if (until_pause < quantum) quantum = until_pause;
  thread->resume = host;
  thread->midway = kAtBlock;
  thread->registers[kR10] = quantum;
  thread->block->count_end = thread->count + quantum;
}

[[noreturn]] void LeaveFor(Thread* thread, uint64_t host) {
  PrepareToLeaveFor(thread, host);
  AgentLeave();
}

bool IsCanonical(uint64_t address) {
  constexpr int kAddressBits = 48;
  const auto value = static_cast<int64_t>(address << (64 - kAddressBits));
  return static_cast<uint64_t>(value >> (64 - kAddressBits)) == address;
}

// Processors do not go there: the branch itself faults, before it has had any effect.
[[noreturn]] void FaultAtBranch(Thread* thread) {
  const HsThreadBlock& block = *thread->block;
  thread->pc = block.exit_branch_pc;
  thread->registers[kRsp] += block.exit_rsp_before;
  --thread->count;
  RaiseFault(thread, SIGSEGV);
  Continue(thread);
}

// Others change what the instruction at pc reads faster than it is compared: it takes what was
// imported, which memory did have.
[[noreturn]] void ReadFromView(Thread* thread) {
  const Answer answer = Ask(thread, RequestKind::kTranslateOne, thread->pc);
  const HsThreadBlock& block = *thread->block;
  TakeMiss(thread, block.exit_address, block.exit_size);
  if (answer.results[0] == 0) TryAgain(thread, block.exit_host_pc);
  PrepareToLeaveFor(thread, answer.results[0]);
  // The load that was not right has its register already.
  thread->midway = kOneInstruction;
  AgentLeave();
}

[[noreturn]] void HandleMiss(Thread* thread) {
  constexpr uint32_t kPatience = 3;
  const HsThreadBlock& block = *thread->block;
  thread->misses = thread->missed == thread->count ? thread->misses + 1 : 1;
  thread->missed = thread->count;
  if (thread->misses > kPatience) ReadFromView(thread);
  TakeMiss(thread, block.exit_address, block.exit_size);
  TryAgain(thread, block.exit_host_pc);
}

}  // namespace

[[noreturn]] void TryAgain(Thread* thread, uint64_t host_pc) {
  thread->resume = host_pc;
  thread->midway = kMidway;
  AgentLeave();
}

[[noreturn]] void Continue(Thread* thread) {
  TakeSnapshotIfWanted(thread);
  while (TakeHeld(thread)) {
    if ((thread->pending & kOrderPending) != 0) {
      Obey(thread);
      RestoreSignalMask(*thread);
      continue;
    }
    DeliverPending(thread);
  }
  DropWhatOthersDropped(thread);
  MayPause(thread);
  EndSegmentIfDue(thread);
  LeaveFor(thread, HostOf(thread, thread->pc));
}

[[noreturn]] void LeaveAlone(Thread* thread) {
  GiveBackThreadSignals(*thread);
  Call(SYS_arch_prctl, ARCH_SET_GS, thread->block->gs_base);
  if (thread->no_time_stamps != 0) Call(SYS_prctl, PR_SET_TSC, PR_TSC_SIGSEGV);
  InstallPersonality();
  InstallFilters(*thread);
  LeaveNatively(thread, /*step=*/false);
}

[[noreturn]] void LeaveNatively(Thread* thread, bool step) {
  const uint64_t* r = thread->registers;
  const HsThreadBlock* block = thread->block;
  const uint64_t flags = thread->flags | (step ? kTrapFlag : 0);
  thread->stepping = step ? 1 : 0;
  if (step) {
    thread->step_pc = thread->pc;
    BeginStep(thread);
  }
  const uint64_t frame[] = {
      r[15],   r[14],      r[13],     r[12],   block->guest_r11, block->guest_r10, r[kR9],
      r[kR8],  r[kRdi],    r[kRsi],   r[kRbp], r[kRbx],          r[kRdx],          r[kRcx],
      r[kRax], thread->pc, kUserCode, flags,   r[kRsp],          kUserData};
  AgentLeaveNative(frame);
}

// A branch that has been executed was an event in the order of threads.
void OrderBranch(Thread* thread) {
  if (thread->block->exit_orderable == 0 || !IsRecorded(*thread)) return;
  --thread->count;
  OrderInstruction(thread, /*timed=*/thread->block->exit_orderable == HS_ORDER_TIMED);
  ++thread->count;
}

extern "C" [[noreturn]] void AgentHandleExit(Thread* thread) {
  HsThreadBlock* block = thread->block;
  thread->count = block->count_end - thread->registers[kR10] +
                  static_cast<uint64_t>(int64_t{block->exit_adjust});
  thread->pc = block->exit_guest_pc;
  LeaveIfOver(thread);
  OpenGuardIfWanted(thread);
  switch (block->exit_kind) {
    case kHsExitLink:
      LeaveFor(thread, Translate(thread, thread->pc));
    case kHsExitIndirect: {
      if (!IsCanonical(thread->pc)) FaultAtBranch(thread);
      OrderBranch(thread);
      const uint64_t host = HostOf(thread, thread->pc);
      EnterInTable(thread->table(), thread->pc, HostOfIndirect(thread, thread->pc, host));
      LeaveFor(thread, host);
    }
    case kHsExitCode:
      // A replay executes what the view shows.
      if (IsRecorded(*thread)) TakeRead(thread, thread->pc, block->exit_size);
      LeaveFor(thread, Translate(thread, thread->pc));
    case kHsExitGuard:
      TakeGuarded(thread);
      LeaveFor(thread, HostOf(thread, thread->pc));
    case kHsExitSyscall:
      HandleCall(thread);
      break;
    case kHsExitInstruction:
      HandleInstruction(thread);
      break;
    case kHsExitMiss:
      HandleMiss(thread);
    case kHsExitOperation:
      RunOperation(thread);
    default:
      break;
  }
  Continue(thread);
}

extern "C" [[noreturn]] void AgentHandlePending(Thread* thread) {
  if (thread->midway == kAtBlock) Continue(thread);
  if (thread->midway == kMidway) StopSoon(thread);
  AgentLeaveNow();
}

}  // namespace hindsight::agent
