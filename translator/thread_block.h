// What translated code, the agent inside the program and the recorder agree on: the block of a
// guest thread, the table of indirect branches, and how translated code is entered and left. Plain
// C; to assembly it says HS_GS_SHIFT.
//
// The view of address A lies at A + D, where D is the guest thread's distance, a multiple of 128
// GiB, not 0, plus 16 MiB, so that the 16 MiB below the view of address 0 are free. gs:[X] is what
// lies at X + D (how it is encoded: host/gs_shift.h):
//
//   gs:[-2 MiB - 132 KiB] ..     a byte for each guard of code; see kHsExitGuard
//   gs:[-2 MiB - 68 KiB] ..      struct HsThreadBlock; the rest of the page is the agent's
//   gs:[-2 MiB - 64 KiB] .. gs:[-2 MiB]   where the thread's calls return to
//   gs:[-2 MiB] .. gs:[-1 MiB]   its table of indirect branches
//   gs:[-1 MiB] .. gs:[0]        nothing: what the guest's null pointers with negative offsets lead
//                                to
//
// While translated code runs:
//   r10    counts instructions down: count of the thread = count_end - r10 + adjust, where adjust
//   is
//          a constant of the place in the code (0 at every block's entry)
//   r11    scratch; dead at every block's entry. Where code goes on at exit_host_pc: the guest's
//   others and flags, FS base, x87, vectors: the guest's
//   guest_r10, guest_r11: the guest's own r10 and r11
//
// Entering: everything above in place, count_end and r10 such that the formula holds with adjust 0,
// then a jump to the host address of the guest pc.
//
// Leaving: `jmp *gs:[agent_exit]`, with everything above in place, r11 dead, and the exit_ fields
// set. Of the status flags (CF PF AF ZF SF OF) those in exit_flags_exact are the guest's; the
// others may not be: the guest overwrites them before it reads them. The count of the state at
// exit_guest_pc is count_end - r10 + exit_adjust.

#ifndef HINDSIGHT_TRANSLATOR_THREAD_BLOCK_H_
#define HINDSIGHT_TRANSLATOR_THREAD_BLOCK_H_

#include "translator/host/gs_shift.h"

#define HS_BLOCK_OFFSET (-0x211000)
#define HS_GUARDS_OFFSET (-0x221000)
#define HS_GUARDS 0x10000

#ifndef __ASSEMBLER__

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define HS_STATIC_ASSERT(condition) static_assert(condition)
#else
#define HS_STATIC_ASSERT(condition) _Static_assert(condition, #condition)
#endif

enum HsExitKind {
  // A direct branch to exit_guest_pc, which is not translated yet. The branch has been executed.
  kHsExitLink = 1,
  // An indirect branch at exit_branch_pc to exit_guest_pc, which the table does not have. It has
  // been executed. But to a target that is not canonical processors do not go: the branch itself
  // faults. To get the state before it, add exit_rsp_before to rsp, and the count is one less.
  // (What
  // a call has pushed below rsp stays.)
  kHsExitIndirect = 2,
  // A syscall instruction at exit_guest_pc, which has not been executed and is not counted: the
  // agent makes the call, sets rax, rcx (exit_guest_pc + exit_size) and guest_r11 (flags),
  // decrements r10 and goes on at exit_guest_pc + exit_size.
  kHsExitSyscall = 3,
  // The counter is negative. The instruction at exit_guest_pc has not been executed.
  kHsExitCounter = 4,
  // An instruction at exit_guest_pc, exit_size bytes long, that translated code does not execute
  // (cpuid, rdtsc, int3, ud2, refused ones; also what does not decode: exit_size 0). It has not
  // been
  // executed and is not counted. Flavour record: exit_address is that of an operand in memory.
  kHsExitInstruction = 5,
  // Flavour record: memory at exit_address, exit_size bytes, may differ from the view. Once they
  // agree, go on at exit_host_pc with r10 unchanged: the instruction at exit_guest_pc begins again.
  // It has changed no register.
  kHsExitMiss = 6,
  // Flavour record: a string instruction with REP, or another operation that is done outside of
  // translated code, described by *exit_operation (translator/runtime/operation.h). Its memory
  // operand is at exit_address, exit_size bytes. Counted like an ordinary instruction: when it is
  // done, go on at exit_host_pc with r10 unchanged.
  kHsExitOperation = 7,
  // The code at exit_guest_pc, exit_size bytes long, is no longer what the block was made from, or
  // the view shows something else there. Nothing has been executed.
  kHsExitCode = 8,
  // The thread's view may not show the page of the code at exit_guest_pc as memory has it, which
  // is guarded: when a byte of HS_GUARDS_OFFSET is not 0 it does. exit_guard is the address of the
  // byte's offset from GS, 4 bytes, which others may change at any time. When the view shows it, go
  // on at exit_host_pc with r10 unchanged.
  kHsExitGuard = 9,
};

struct HsThreadBlock {
  uint64_t guest_r10;
  uint64_t guest_r11;
  uint64_t save[4];      // spills of translated code
  uint64_t count_end;    // the count at which r10 becomes 0
  uint64_t fs_base;      // the guest's, also in the FS base itself
  uint64_t gs_base;      // the guest's
  uint64_t agent_exit;   // host address of the agent's entry
  uint64_t agent_stack;  // its initial stack pointer

  // Set when translated code is left. Copied from struct HsExit but for exit_address.
  uint64_t exit_guest_pc;
  union {
    uint64_t exit_host_pc;     // where to go on: kHsExitMiss, kHsExitOperation, kHsExitGuard
    uint64_t exit_rsp_before;  // kHsExitIndirect
  };
  union {
    uint64_t exit_branch_pc;  // kHsExitIndirect
    uint64_t exit_guard;      // kHsExitGuard
    uint64_t exit_operation;  // kHsExitOperation
  };
  uint16_t exit_kind;  // enum HsExitKind
  uint16_t exit_size;
  int32_t exit_adjust;
  uint8_t exit_saved[4];      // [i]: the register whose guest value is in save[i]; HS_NOT_SAVED
  uint16_t exit_flags_exact;  // as in RFLAGS
  uint16_t exit_orderable;    // enum HsOrder. Only of indirect branches
  uint64_t exit_address;      // kHsExitMiss, kHsExitOperation
  // The guest's status flags where they are kept aside: bit 0 OF, bits 8 to 15 as lahf has them.
  uint64_t flags_aside;
  uint64_t branch_host;  // where an indirect branch leads

  // Flavour record: where locked instructions write struct HsLockedEntry.
  uint64_t locked_ring;   // with the words at HS_LOCKED_HEAD and HS_LOCKED_WRITING
  uint64_t locked_limit;  // there is room while the head is below; 0: the agent executes all
  uint64_t locked_bias;   // the entry's address is the head plus this
  uint64_t locked_old;    // what memory had
  uint64_t locked_time;   // for the agent that does the rest

  uint64_t saved_mask;  // of translated code: a mask register's
  uint64_t zero;        // 0, from the start

  // Flavour record: the last kHsCorrection before an instruction that stores the x87 environment
  // has said that the pointers to the last x87 instruction are these. The processor may have lost
  // them since: kernels do not always keep them when they switch tasks.
  uint32_t float_code;
  uint32_t float_opcode;  // in the upper half, as in the environment; the selector is 0
  uint32_t float_data;
};

// Of a ring (recorder/translate/stream/record_ring.h): offsets of its head, 8 bytes, and of what is
// 1 from before the instruction is executed until the entry is there, 4 bytes.
#define HS_LOCKED_HEAD 0
#define HS_LOCKED_WRITING 16

// A locked instruction was executed from the state `count`.
struct HsLockedEntry {
  uint32_t size;
  uint32_t kind;
  uint64_t count;
  uint64_t time;  // rdtsc
};
#define HS_LOCKED_KIND 8

// Whether what has been executed was an event in the order of threads that is not written yet.
enum HsOrder { HS_NOT_ORDERED = 0, HS_ORDERED, HS_ORDER_TIMED };  // timed: in locked_time

#define HS_NOT_SAVED 0xff
// In place of a register's number: the guest's CF is bit 0 of save[i].
#define HS_CARRY_SAVED 0xfe
// In place of a register's number: the guest's status flags are in flags_aside.
#define HS_FLAGS_ASIDE 0xfd
// In place of a register's number: the guest's rsp is what rsp is, minus 8. Nothing is saved.
#define HS_POPPED 0xfc

// In the code beside each exit but most of those of direct branches and the counter; translated
// code copies it into the block.
struct HsExit {
  uint64_t guest_pc;
  uint64_t host_pc;    // or rsp_before
  uint64_t operation;  // or branch_pc, or exit_guard
  uint16_t kind;
  uint16_t size;
  int32_t adjust;
  uint8_t saved[4];
  uint16_t flags_exact;
  uint16_t orderable;
};

// The GS base of a thread with distance D.
static inline uint64_t HsGsBase(uint64_t distance) {
  return distance - (uint64_t)(int64_t)HS_GS_SHIFT;
}

#define HS_BLOCK_FIELD(field) (HS_BLOCK_OFFSET + (int)offsetof(struct HsThreadBlock, field))

// Indirect branches and returns leave the guest's status flags in flags_aside, not in the
// processor. What the tables lead to restores them where they are read.
//
// The table of indirect branches. The entry of guest pc P is number P & 0xffff. Written by the
// thread itself, in the agent, which finds the pcs that are not in it elsewhere.
//
// An entry whose pc is 0 is empty. Entry 0 would then match pc 0: its pc is HS_TABLE_EMPTY from the
// start, and it is not used.
struct HsTableEntry {
  uint64_t pc;
  uint64_t host;
};
//
// A call leaves the address of the place after it in word `pc & 0x1fff` at gs:[HS_PLACES_OFFSET],
// where pc is the guest's that it returns to; a return goes where the word for its target says. The
// place compares that target with the pc that it is for, since the word may be another call's, and
// if it is another one searches the table of indirect branches. From the start all words lead to
// what does that.
//
// Calls and returns are jumps to the processor: who predicts indirect jumps by what has been
// executed before them predicts these as well as if they were paired. What calls and returns of the
// processor's need, a stack pointer of their own, takes longer than the guest's instructions.
#define HS_PLACES_OFFSET (-0x210000)
#define HS_PLACES 0x2000
#define HS_TABLE_OFFSET (-0x200000)
// What the code of an arena begins with, and where in it lies what searches for a return.
#define HS_STUB_BYTES 4096
#define HS_SEARCH_RETURN 256
// Both, from here to the end of the table of indirect branches.
#define HS_TABLES_OFFSET HS_PLACES_OFFSET
#define HS_TABLES_END (-0x100000)
#define HS_TABLE_ENTRIES 0x10000
#define HS_TABLE_EMPTY 1

// Of the word for the guest's pc, as an offset from GS.
static inline int HsPlaceOffset(uint64_t pc) {
  return HS_PLACES_OFFSET + (int)(pc % HS_PLACES * sizeof(uint64_t));
}

// `block` is where it will be used, `arena` where translated code begins.
static inline void HsForgetPlaces(struct HsThreadBlock* block, uint64_t arena) {
  uint64_t* const words =
      (uint64_t*)((uint64_t)block - (uint64_t)(int64_t)(HS_BLOCK_OFFSET - HS_PLACES_OFFSET));
  for (int i = 0; i < HS_PLACES; ++i) words[i] = arena + HS_SEARCH_RETURN;
}

HS_STATIC_ASSERT(HS_GUARDS_OFFSET + HS_GUARDS == HS_BLOCK_OFFSET);
HS_STATIC_ASSERT(HS_BLOCK_OFFSET + 0x1000 == HS_PLACES_OFFSET);
HS_STATIC_ASSERT(HS_PLACES_OFFSET + HS_PLACES * 8 == HS_TABLE_OFFSET);
HS_STATIC_ASSERT(HS_TABLE_OFFSET + HS_TABLE_ENTRIES * 16 == HS_TABLES_END);
HS_STATIC_ASSERT(sizeof(struct HsTableEntry) == 16);
HS_STATIC_ASSERT(sizeof(struct HsExit) == 40);
HS_STATIC_ASSERT(offsetof(struct HsThreadBlock, guest_r10) == 0);
HS_STATIC_ASSERT(offsetof(struct HsThreadBlock, save) == 16);
HS_STATIC_ASSERT(offsetof(struct HsThreadBlock, count_end) == 48);
HS_STATIC_ASSERT(offsetof(struct HsThreadBlock, fs_base) == 56);
HS_STATIC_ASSERT(offsetof(struct HsThreadBlock, gs_base) == 64);
HS_STATIC_ASSERT(offsetof(struct HsThreadBlock, agent_exit) == 72);
HS_STATIC_ASSERT(offsetof(struct HsThreadBlock, agent_stack) == 80);
HS_STATIC_ASSERT(offsetof(struct HsThreadBlock, exit_guest_pc) == 88);
HS_STATIC_ASSERT(offsetof(struct HsThreadBlock, exit_host_pc) == 96);
HS_STATIC_ASSERT(offsetof(struct HsThreadBlock, exit_operation) == 104);
HS_STATIC_ASSERT(offsetof(struct HsThreadBlock, exit_kind) == 112);
HS_STATIC_ASSERT(offsetof(struct HsThreadBlock, exit_adjust) == 116);
HS_STATIC_ASSERT(offsetof(struct HsThreadBlock, exit_saved) == 120);
HS_STATIC_ASSERT(offsetof(struct HsThreadBlock, exit_flags_exact) == 124);
HS_STATIC_ASSERT(offsetof(struct HsThreadBlock, exit_address) == 128);
HS_STATIC_ASSERT(offsetof(struct HsThreadBlock, flags_aside) == 136);
HS_STATIC_ASSERT(sizeof(struct HsThreadBlock) == 224);
HS_STATIC_ASSERT(sizeof(struct HsLockedEntry) == 24);

#endif  // __ASSEMBLER__

#endif  // HINDSIGHT_TRANSLATOR_THREAD_BLOCK_H_
