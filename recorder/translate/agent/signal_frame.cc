#include "recorder/translate/agent/signal_frame.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>

#include "recorder/translate/agent/calls.h"
#include "recorder/translate/agent/entry.h"
#include "recorder/translate/agent/float_state.h"
#include "recorder/translate/base/system.h"

namespace hindsight::agent {
namespace {

constexpr uint64_t kRedZoneBytes = 128;
constexpr uint64_t kVectorAlignment = 64;
constexpr uint64_t kSmallestStack = 2048;  // MINSIGSTKSZ
// UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS.
constexpr uint64_t kContextFlags = 7;
constexpr uint32_t kVectorEndMagic = 0x46505845;  // FP_XSTATE_MAGIC2
constexpr uint64_t kUserCode = 0x33, kUserData = 0x2b;
constexpr uint64_t kTrap = 0x100, kDirection = 0x400, kResume = 0x10000;
constexpr uint64_t kRestoredFlags = 0x40cd5;  // AC, OF, DF, SF, ZF, AF, PF, CF
constexpr uint64_t kAlwaysFlags = 0x202;

struct FramePlace {
  uint64_t frame, vectors;
};

FramePlace PlaceFrame(const Thread& thread, const SignalAction& action) {
  uint64_t sp = thread.registers[kRsp];
  const bool other_stack = (action.flags & SA_ONSTACK) != 0 && thread.signal_stack.size != 0 &&
                           !IsOnSignalStack(thread, sp);
  sp = other_stack ? thread.signal_stack.address + thread.signal_stack.size : sp - kRedZoneBytes;
  const uint64_t vectors = (sp - thread.software.extended_bytes) & ~(kVectorAlignment - 1);
  return {((vectors - sizeof(SignalFrame)) & ~uint64_t{15}) - 8, vectors};
}

FrameRegisters RegistersOf(const Thread& thread) {
  const uint64_t* r = thread.registers;
  const HsThreadBlock& block = *thread.block;
  return {.r8 = r[8],
          .r9 = r[9],
          .r10 = block.guest_r10,
          .r11 = block.guest_r11,
          .r12 = r[12],
          .r13 = r[13],
          .r14 = r[14],
          .r15 = r[15],
          .rdi = r[kRdi],
          .rsi = r[kRsi],
          .rbp = r[kRbp],
          .rbx = r[kRbx],
          .rdx = r[kRdx],
          .rax = r[kRax],
          .rcx = r[kRcx],
          .rsp = r[kRsp],
          .rip = thread.pc,
          .flags = thread.flags,
          .cs = kUserCode,
          .ss = kUserData};
}

// Zeros, where a fault may come.
bool Clear(uint64_t start, uint64_t bytes) {
  static const uint8_t zeros[512] = {};
  while (bytes != 0) {
    const uint64_t now = bytes < sizeof(zeros) ? bytes : sizeof(zeros);
    if (!CopyGuest(PointerTo<void>(start), zeros, now)) return false;
    start += now;
    bytes -= now;
  }
  return true;
}

// How large the kernel's frames are it says in each: one is provoked, if there was none.
void LearnFrames(const Thread& thread) {
  uint8_t byte;
  if (thread.software.extended_bytes == 0) CopyGuest(&byte, PointerTo<void>(kStackEnd), 1);
}

void SaveVectors(const SoftwareBytes& software, uint64_t area) {
  asm volatile("xsave64 (%0)"
               :
               : "r"(area), "a"(static_cast<uint32_t>(software.features)),
                 "d"(static_cast<uint32_t>(software.features >> 32))
               : "memory");
  *PointerTo<SoftwareBytes>(area + kSoftwareBytesOffset) = software;
  *PointerTo<uint32_t>(area + software.bytes) = kVectorEndMagic;
}

// Handlers begin with the state that programs begin with: nothing is rounded or raised as the
// interrupted code wants it. Which memory may be read stays as it is: zeros would allow all that is
// only to be executed.
void ResetVectors(const SoftwareBytes& software) {
  constexpr uint64_t kProtectionKeys = uint64_t{1} << 9;  // PKRU
  const uint64_t reset = software.features & ~kProtectionKeys;
  struct alignas(64) Area {
    uint32_t legacy[128];  // MXCSR is the one that is taken from here
    uint64_t header[8];    // no component is there
  };
  constexpr int kMxcsr = 6;
  constexpr uint32_t kUsualMxcsr = 0x1f80;
  Area area = {};
  area.legacy[kMxcsr] = kUsualMxcsr;
  asm volatile("xrstor64 %0"
               :
               : "m"(area), "a"(static_cast<uint32_t>(reset)),
                 "d"(static_cast<uint32_t>(reset >> 32)));
}

void SetUpFrame(const Thread& thread, const PendingSignal& signal, const SignalAction& action,
                FramePlace place, SignalFrame* frame) {
  frame->restorer = action.restorer;
  frame->context.flags = kContextFlags;
  frame->context.stack = thread.signal_stack;
  FrameRegisters& registers = frame->context.registers;
  registers = RegistersOf(thread);
  registers.error = signal.error;
  registers.trap = signal.trap;
  registers.fault_address = signal.fault_address;
  registers.old_mask = thread.signal_mask;
  registers.vectors = place.vectors;
  frame->context.mask = thread.signal_mask;
  memcpy(frame->info, signal.info, sizeof(frame->info));
}

}  // namespace

bool IsOnSignalStack(const Thread& thread, uint64_t stack_pointer) {
  const GuestStack& stack = thread.signal_stack;
  if ((stack.flags & kAutoDisarm) != 0) return false;
  return stack_pointer > stack.address && stack_pointer - stack.address <= stack.size;
}

int64_t ChangeSignalStack(Thread* thread, const GuestStack& stack) {
  if (IsOnSignalStack(*thread, thread->registers[kRsp])) return -EPERM;
  const uint32_t mode = stack.flags & ~kAutoDisarm;
  if (mode != 0 && mode != SS_ONSTACK && mode != SS_DISABLE) return -EINVAL;
  if (mode == SS_DISABLE) {
    thread->signal_stack = {0, stack.flags, 0, 0};
    return 0;
  }
  if (stack.size < kSmallestStack) return -ENOMEM;
  thread->signal_stack = {stack.address, stack.flags, 0, stack.size};
  return 0;
}

void TakeRegisters(const FrameRegisters& from, Thread* thread) {
  const uint64_t registers[16] = {from.rax, from.rcx, from.rdx, from.rbx, from.rsp, from.rbp,
                                  from.rsi, from.rdi, from.r8,  from.r9,  from.r10, from.r11,
                                  from.r12, from.r13, from.r14, from.r15};
  memcpy(thread->registers, registers, sizeof(registers));
  thread->pc = from.rip;
  thread->flags = from.flags;
}

bool EnterHandler(Thread* thread, const PendingSignal& signal, const SignalAction& action) {
  LearnFrames(*thread);
  const FramePlace place = PlaceFrame(*thread, action);
  SignalFrame frame = {};
  SetUpFrame(*thread, signal, action, place, &frame);
  if (!Clear(place.vectors, thread->software.extended_bytes) ||
      !CopyGuest(PointerTo<void>(place.frame), &frame, sizeof(frame))) {
    return false;
  }
  NoteExtendedState(thread);
  SaveVectors(thread->software, place.vectors);
  ShowGuestPointersIn(thread, PointerTo<uint8_t>(place.vectors));
  ResetVectors(thread->software);
  if ((thread->signal_stack.flags & kAutoDisarm) != 0) thread->signal_stack = kNoSignalStack;
  uint64_t* r = thread->registers;
  r[kRdi] = static_cast<uint64_t>(signal.info[0]);
  r[kRsi] = place.frame + offsetof(SignalFrame, info);
  r[kRdx] = place.frame + offsetof(SignalFrame, context);
  r[kRax] = 0;
  r[kRsp] = place.frame;
  thread->pc = action.handler;
  thread->flags &= ~(kTrap | kDirection | kResume);
  return true;
}

bool LeavesToTrapFlag(const Thread& thread) {
  uint64_t flags;
  const uint64_t place =
      thread.registers[kRsp] - 8 + offsetof(SignalFrame, context.registers.flags);
  return CopyGuest(&flags, PointerTo<void>(place), sizeof(flags)) && (flags & kTrap) != 0;
}

bool LeaveHandler(Thread* thread) {
  SignalFrame frame;
  if (!CopyGuest(&frame, PointerTo<void>(thread->registers[kRsp] - 8), sizeof(frame))) return false;
  // As the kernel does since Linux 6.12, with the handler's stack pointer. Errors change nothing.
  ChangeSignalStack(thread, frame.context.stack);
  TakeRegisters(frame.context.registers, thread);
  thread->block->guest_r10 = frame.context.registers.r10;
  thread->block->guest_r11 = frame.context.registers.r11;
  thread->flags = (thread->flags & kRestoredFlags) | kAlwaysFlags;
  thread->signal_mask = frame.context.mask;
  NoteExtendedState(thread);
  // The kernel does the rest, with what is the agent's in the places of what is the guest's.
  frame.context.mask = ~uint64_t{0};
  frame.context.stack = AgentSignalStack(*thread);
  frame.context.registers.flags = kAlwaysFlags;
  frame.context.registers.cs = kUserCode;
  frame.context.registers.ss = kUserData;
  AgentRestoreState(&frame);
  return true;
}

void AllowMisaligned() {
  asm volatile("pushfq\n\tandl $0xfffbffff, (%%rsp)\n\tpopfq" : : : "cc", "memory");
}

bool IsForbiddenStore(const FrameRegisters& registers, uint64_t address) {
  constexpr uint64_t kWrite = 2, kPageBytes = 4096, kPopulateWrite = 23;
  if ((registers.error & kWrite) == 0) return false;
  const auto populate = [](uint64_t at) {
    return Call(SYS_madvise, at & ~(kPageBytes - 1), kPageBytes, kPopulateWrite);
  };
  const bool is_known = populate(AddressOf(&registers)) == 0;  // older kernels do not know it
  return is_known && populate(address) == -EINVAL;
}

}  // namespace hindsight::agent
