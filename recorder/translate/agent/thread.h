// A thread of the program as the agent sees it: the rest of the page that begins with the thread
// block, and the offsets by which assembly reaches it.
//
// Only the thread itself uses it, its signal handler included. Plain data that assembly reaches at
// fixed offsets, hence in one struct.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_AGENT_THREAD_H_
#define HINDSIGHT_RECORDER_TRANSLATE_AGENT_THREAD_H_

#include "translator/thread_block.h"

// gs:[...]; assembly has HS_GS_SHIFT added.
#define HS_THREAD_OFFSET (HS_BLOCK_OFFSET + 0x100)
#define HS_REGISTERS (HS_THREAD_OFFSET + 0)
#define HS_REGISTER(number) (HS_REGISTERS + 8 * (number))
#define HS_FLAGS (HS_THREAD_OFFSET + 128)
#define HS_RESUME (HS_THREAD_OFFSET + 136)
#define HS_PENDING (HS_THREAD_OFFSET + 144)
#define HS_SELF (HS_THREAD_OFFSET + 152)
#define HS_AGENT_STACK (HS_BLOCK_OFFSET + 80)
#define HS_GUEST_R10 (HS_BLOCK_OFFSET + 0)
#define HS_GUEST_R11 (HS_BLOCK_OFFSET + 8)

// In the kernel's signal frame.
#define HS_FRAME_RSP 168
#define HS_FRAME_RIP 176

#ifndef __ASSEMBLER__

#include <stddef.h>
#include <stdint.h>

#include "recorder/translate/base/layout.h"

namespace hindsight::agent {

// As instructions encode them.
enum RegisterNumber { kRax, kRcx, kRdx, kRbx, kRsp, kRbp, kRsi, kRdi, kR8, kR9, kR10, kR11 };

// A signal that has come and is not yet delivered.
struct PendingSignal {
  int32_t info[32];                     // siginfo: number, errno, code, ...
  uint64_t error, trap, fault_address;  // as in the kernel's frame
};

// What a frame says about its vector state, in the legacy area.
struct SoftwareBytes {
  uint32_t magic;
  uint32_t extended_bytes;  // with the magic at its end
  uint64_t features;
  uint32_t bytes;
  uint32_t padding[7];
};
static_assert(sizeof(SoftwareBytes) == 48);

struct GuestStack {
  uint64_t address;
  uint32_t flags;
  uint32_t reserved;
  uint64_t size;
};

// In instructions. A block that would reach over where a thread is to stop is not begun.
inline constexpr uint64_t kLargestBlock = 64;

struct SignalActions;
struct CallFilter;

// What a thread is to do before it goes on: bits of `pending`.
enum PendingBits : uint32_t {
  kSignalPending = 1,  // `signal` is to be delivered
  kOrderPending = 2,   // it is to end, to leave, or to stand still (orders.h)
};

// Where `resume` is.
enum MidwayState : uint32_t {
  kAtBlock = 0,
  kMidway = 1,          // in the middle of a block; pc and count are not its
  kOneInstruction = 2,  // at an instruction that has been begun, and is translated apart: what is
                        // pending waits until it has been executed
};

// Calls from outside [start, start + bytes) raise SIGSYS in place of being made, if `on`, unless
// the byte at `selector`, if there is one, allows them (PR_SET_SYSCALL_USER_DISPATCH).
struct CallDispatch {
  uint64_t on, start, bytes, selector;
};

struct Thread {
  // The guest's, but for r10 and r11, which are in the block: [kR10] is the counter.
  uint64_t registers[16];
  uint64_t flags;
  uint64_t resume;    // host address to leave for
  uint32_t pending;   // PendingBits
  uint32_t stepping;  // the instruction at step_pc is being executed natively
  Thread* self;

  uint32_t operating;  // an operation is being executed (operations.h)
  uint32_t misses;     // one after the other of the instruction executed from state `missed`
  uint64_t missed;
  uint32_t midway;    // MidwayState
  uint32_t in_call;   // it may be waiting in a system call, outside of the view
  uint32_t alone;     // of a process of its own, in memory that is another's for so long (vfork)
  uint32_t standing;  // it stands still (orders.h)
  uint32_t ordered;   // an order is on the way to it, likewise
  uint32_t released;  // of a new thread: a futex, 1 when the call that has made it is recorded
  HsThreadBlock* block;
  uint64_t step_pc;
  uint64_t pc;      // the guest's, while its thread is in the agent
  uint64_t count;   // instructions executed, likewise
  uint64_t number;  // of the gap, and of the slot
  int32_t process_id;
  int32_t thread_id;
  // How the recorder numbers them: otherwise if the process is in a PID namespace below its own.
  int32_t recorded_process;
  int32_t recorded_thread;
  uint32_t in_namespace;   // 1: it is
  uint32_t epoch;          // that the tables of indirect branches are of
  uint32_t fault_signal;   // 0: an instruction has been executed natively
  uint64_t fault_host_pc;  // 0: the registers are the guest's, exactly
  uint64_t signal_mask;    // the guest's, all 64 of it
  GuestStack signal_stack;
  SignalActions* actions;
  const CallFilter* filters;   // of system calls (calls.h); null: none
  uint32_t filter_generation;  // that they are of
  uint32_t strict_calls;       // 1: hardly any calls are allowed (SECCOMP_MODE_STRICT)
  CallDispatch dispatch;
  uint32_t no_time_stamps;  // 1: rdtsc faults (PR_SET_TSC)
  uint32_t has_extended;    // 1: an extended register has been in use (float_state.h)
  uint32_t code_changed;    // 1: since the call was begun, code that was executed may have
  // While `pending`; all others are blocked then.
  PendingSignal signal;
  PendingSignal fault;
  // What ended AgentCopy last; 0: nothing since somebody has cleared it.
  int32_t copy_fault_signal;
  int32_t copy_fault_code;
  SoftwareBytes software;  // of the kernel's last frame
  // Signals of faults that somebody has sent and that the guest blocks, by the bit of the mask: the
  // kernel must not block them, or a fault of the agent's would end the process.
  uint64_t held;
  uint64_t unblocked;  // by the system call that is being made, as long as it waits
  // 1: that call has been ended by a signal, which is not delivered yet, and blocked waiting_mask.
  uint32_t waited;
  uint64_t waiting_mask;
  int32_t held_info[5][32];  // siginfo of each, in the order of their numbers
  // What a system call gets in place of the program's mask, and of what tells where that is.
  uint64_t call_mask;
  uint64_t call_mask_place[2];

  // Its own signal handler does so at any time.
  void SetPending(PendingBits bit) { __atomic_fetch_or(&pending, bit, __ATOMIC_RELAXED); }
  void ClearPending(PendingBits bit) { __atomic_fetch_and(&pending, ~bit, __ATOMIC_RELAXED); }

  HsTableEntry* table() const {
    return reinterpret_cast<HsTableEntry*>(DistanceOf(number) + HS_TABLE_OFFSET);
  }
};

// That in gap `number`, which must have been used.
inline Thread* ThreadOf(uint64_t number) {
  return reinterpret_cast<Thread*>(DistanceOf(number) + HS_THREAD_OFFSET);
}

static_assert(kStepStateOffset + 64 * kKiB <= kGapBytes + HS_GUARDS_OFFSET);
static_assert(sizeof(HsThreadBlock) <= 0x100 && sizeof(Thread) <= 0x1000 - 0x100);
static_assert(offsetof(Thread, registers) == HS_REGISTERS - HS_THREAD_OFFSET);
static_assert(offsetof(Thread, flags) == HS_FLAGS - HS_THREAD_OFFSET);
static_assert(offsetof(Thread, resume) == HS_RESUME - HS_THREAD_OFFSET);
static_assert(offsetof(Thread, pending) == HS_PENDING - HS_THREAD_OFFSET);
static_assert(offsetof(Thread, self) == HS_SELF - HS_THREAD_OFFSET);
static_assert(HS_BLOCK_FIELD(agent_stack) == HS_AGENT_STACK);
static_assert(HS_BLOCK_FIELD(guest_r10) == HS_GUEST_R10);
static_assert(HS_BLOCK_FIELD(guest_r11) == HS_GUEST_R11);

}  // namespace hindsight::agent

#endif  // __ASSEMBLER__

#endif  // HINDSIGHT_RECORDER_TRANSLATE_AGENT_THREAD_H_
