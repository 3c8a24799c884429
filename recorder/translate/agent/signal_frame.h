// Signal frames as the kernel lays them out on the guest's stack.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_AGENT_SIGNAL_FRAME_H_
#define HINDSIGHT_RECORDER_TRANSLATE_AGENT_SIGNAL_FRAME_H_

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "recorder/translate/agent/signals.h"
#include "recorder/translate/agent/thread.h"

namespace hindsight::agent {

// struct sigcontext.
struct FrameRegisters {
  uint64_t r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip;
  uint64_t flags;
  uint16_t cs, gs, fs, ss;
  uint64_t error, trap, old_mask, fault_address;
  uint64_t vectors;  // address of the XSAVE area
  uint64_t reserved[8];
};

// struct ucontext.
struct FrameContext {
  uint64_t flags, link;
  GuestStack stack;
  FrameRegisters registers;
  uint64_t mask;
};

// struct rt_sigframe.
struct SignalFrame {
  uint64_t restorer;
  FrameContext context;
  int32_t info[32];
};
static_assert(sizeof(SignalFrame) == 440);
static_assert(offsetof(SignalFrame, context.registers.rsp) == HS_FRAME_RSP);
static_assert(offsetof(SignalFrame, context.registers.rip) == HS_FRAME_RIP);

inline constexpr uint64_t kSoftwareBytesOffset = 464;  // in the XSAVE area

// The general registers of a frame, with r10 and r11 the guest's, to where the agent keeps them;
// also pc and flags.
void TakeRegisters(const FrameRegisters& from, Thread* thread);

// The program may have forbidden misaligned accesses, and handlers begin with its flag.
void AllowMisaligned();

// Of a fault at `address`, past the end of a file: whether it is a store where none is allowed
// either, which comes first. The kernel says so without storing (madvise(2), MADV_POPULATE_WRITE).
bool IsForbiddenStore(const FrameRegisters& registers, uint64_t address);

// Puts a frame for the handler `action` of `signal` on the guest's stack, and the thread at the
// handler's first instruction. False if there is no room: nothing has changed.
bool EnterHandler(Thread* thread, const PendingSignal& signal, const SignalAction& action);

// Takes back what a handler's frame, at its stack pointer - 8, has saved. False if it cannot be
// read.
bool LeaveHandler(Thread* thread);

// Whether the same frame has the trap flag.
bool LeavesToTrapFlag(const Thread& thread);

// Of Thread::signal_stack the flags are as the kernel keeps them: those that it was set with.
inline constexpr uint32_t kAutoDisarm = 1u << 31;  // SS_AUTODISARM
// As threads begin with.
inline constexpr GuestStack kNoSignalStack = {0, SS_DISABLE, 0, 0};
// Whether `stack_pointer` is on the guest's alternate stack.
bool IsOnSignalStack(const Thread& thread, uint64_t stack_pointer);
// As sigaltstack does: 0, or its error.
int64_t ChangeSignalStack(Thread* thread, const GuestStack& stack);

}  // namespace hindsight::agent

#endif  // HINDSIGHT_RECORDER_TRANSLATE_AGENT_SIGNAL_FRAME_H_
