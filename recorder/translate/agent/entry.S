// How the agent is entered and left: by translated code, by the kernel, for system calls, and for
// instructions that are executed natively. The rest of the agent is C++.

#include "recorder/translate/agent/thread.h"

#define GS(offset) %gs:(offset) + HS_GS_SHIFT

        .section .text, "ax", @progbits

// The thread's first instruction, with the kernel's stack and nothing else.
        .globl  AgentEntry
        .hidden AgentEntry
AgentEntry:
        cld
        xorl    %ebp, %ebp
        andq    $-16, %rsp
        call    AgentBoot
        ud2

// From translated code: every register is the guest's, but for r10 and r11.
        .globl  AgentExit
        .hidden AgentExit
AgentExit:
        movq    %rsp, GS(HS_REGISTER(4))
        movq    GS(HS_AGENT_STACK), %rsp
        pushfq
        popq    GS(HS_FLAGS)
        movq    %rax, GS(HS_REGISTER(0))
        movq    %rcx, GS(HS_REGISTER(1))
        movq    %rdx, GS(HS_REGISTER(2))
        movq    %rbx, GS(HS_REGISTER(3))
        movq    %rbp, GS(HS_REGISTER(5))
        movq    %rsi, GS(HS_REGISTER(6))
        movq    %rdi, GS(HS_REGISTER(7))
        movq    %r8, GS(HS_REGISTER(8))
        movq    %r9, GS(HS_REGISTER(9))
        movq    %r10, GS(HS_REGISTER(10))
        movq    %r12, GS(HS_REGISTER(12))
        movq    %r13, GS(HS_REGISTER(13))
        movq    %r14, GS(HS_REGISTER(14))
        movq    %r15, GS(HS_REGISTER(15))
        pushq   $0x202
        popfq
        xorl    %ebp, %ebp
        movq    GS(HS_SELF), %rdi
        call    AgentHandleExit
        ud2

// Where a signal handler returns to when the thread's registers are in the thread area already:
// the agent looks at what has happened.
        .globl  AgentFault
        .hidden AgentFault
AgentFault:
        movq    GS(HS_AGENT_STACK), %rsp
        xorl    %ebp, %ebp
        movq    GS(HS_SELF), %rdi
        call    AgentHandleFault
        ud2

// void AgentLeave(): to translated code at HS_RESUME. Does not return. If a signal is pending it
// goes to AgentHandlePending instead. A signal that comes before the last instruction makes it begin
// again: nothing that it needs has changed by then.
        .globl  AgentLeave, AgentLeaveEnd
        .hidden AgentLeave, AgentLeaveEnd
AgentLeave:
        movq    GS(HS_AGENT_STACK), %rsp
        cmpl    $0, GS(HS_PENDING)
        jne     .Lpending
// Without looking for one.
        .globl  AgentLeaveNow
        .hidden AgentLeaveNow
AgentLeaveNow:
        movq    GS(HS_AGENT_STACK), %rsp
        pushq   GS(HS_FLAGS)
        popfq
        movq    GS(HS_REGISTER(0)), %rax
        movq    GS(HS_REGISTER(1)), %rcx
        movq    GS(HS_REGISTER(2)), %rdx
        movq    GS(HS_REGISTER(3)), %rbx
        movq    GS(HS_REGISTER(5)), %rbp
        movq    GS(HS_REGISTER(6)), %rsi
        movq    GS(HS_REGISTER(7)), %rdi
        movq    GS(HS_REGISTER(8)), %r8
        movq    GS(HS_REGISTER(9)), %r9
        movq    GS(HS_REGISTER(10)), %r10
        movq    GS(HS_REGISTER(12)), %r12
        movq    GS(HS_REGISTER(13)), %r13
        movq    GS(HS_REGISTER(14)), %r14
        movq    GS(HS_REGISTER(15)), %r15
        movq    GS(HS_GUEST_R11), %r11
        movq    GS(HS_REGISTER(4)), %rsp
        jmp     *GS(HS_RESUME)
AgentLeaveEnd:
.Lpending:
        movq    GS(HS_SELF), %rdi
        call    AgentHandlePending
        ud2

// void AgentLeaveNative(const uint64_t* frame): to the guest's own code. `frame` is on the agent's
// stack: r15 ... rax as below, then rip, cs, flags, rsp, ss.
        .globl  AgentLeaveNative
        .hidden AgentLeaveNative
AgentLeaveNative:
        movq    %rdi, %rsp
        popq    %r15
        popq    %r14
        popq    %r13
        popq    %r12
        popq    %r11
        popq    %r10
        popq    %r9
        popq    %r8
        popq    %rdi
        popq    %rsi
        popq    %rbp
        popq    %rbx
        popq    %rdx
        popq    %rcx
        popq    %rax
        .globl  AgentNativeJump
        .hidden AgentNativeJump
AgentNativeJump:
        iretq

// bool AgentSystemCall(uint64_t call[7]): number and arguments; the result replaces the number.
// False if it was not made, because a signal is pending.
        .globl  AgentSystemCall, AgentCallCheck, AgentCallInstruction, AgentCallDone, AgentCallNotMade
        .hidden AgentSystemCall, AgentCallCheck, AgentCallInstruction, AgentCallDone, AgentCallNotMade
AgentSystemCall:
        pushq   %rbx
        movq    %rdi, %rbx
        movq    (%rbx), %rax
        movq    16(%rbx), %rsi
        movq    24(%rbx), %rdx
        movq    32(%rbx), %r10
        movq    40(%rbx), %r8
        movq    48(%rbx), %r9
        movq    8(%rbx), %rdi
AgentCallCheck:
        cmpl    $0, GS(HS_PENDING)
        jne     AgentCallNotMade
AgentCallInstruction:
        syscall
AgentCallDone:
        movq    %rax, (%rbx)
        movl    $1, %eax
        popq    %rbx
        ret
AgentCallNotMade:
        xorl    %eax, %eax
        popq    %rbx
        ret

// int64_t AgentClone(uint64_t call[7], void* stack, void (*child)(void*), void* argument): the call
// is one that makes a task with the same memory. In that, `child` runs on `stack` and does not
// return.
        .globl  AgentClone
        .hidden AgentClone
AgentClone:
        pushq   %rbx
        pushq   %r12
        pushq   %r13
        pushq   %r14
        movq    %rdi, %rbx
        movq    %rsi, %r12
        movq    %rdx, %r13
        movq    %rcx, %r14
        movq    (%rbx), %rax
        movq    16(%rbx), %rsi
        movq    24(%rbx), %rdx
        movq    32(%rbx), %r10
        movq    40(%rbx), %r8
        movq    48(%rbx), %r9
        movq    8(%rbx), %rdi
        syscall
        testq   %rax, %rax
        jne     1f
        movq    %r12, %rsp
        movq    %r14, %rdi
        xorl    %ebp, %ebp
        call    *%r13
        ud2
1:      popq    %r14
        popq    %r13
        popq    %r12
        popq    %rbx
        ret

// uint64_t AgentCopy(void* to, const void* from, uint64_t bytes): returns how many bytes could not be
// copied: a fault in the instruction ends it.
        .globl  AgentCopy, AgentCopyInstruction
        .hidden AgentCopy, AgentCopyInstruction
AgentCopy:
        movq    %rdx, %rcx
AgentCopyInstruction:
        rep movsb
        movq    %rcx, %rax
        ret

// bool AgentIsSame(const void* memory, const void* other, uint64_t bytes): `bytes` is a multiple of 64,
// not 0. A fault in it ends it with false.
        .globl  AgentIsSame, AgentIsSameEnd, AgentIsNotSame
        .hidden AgentIsSame, AgentIsSameEnd, AgentIsNotSame
AgentIsSame:
        movq    (%rdi), %rax
        movq    8(%rdi), %rcx
        movq    16(%rdi), %r8
        movq    24(%rdi), %r9
        xorq    (%rsi), %rax
        xorq    8(%rsi), %rcx
        xorq    16(%rsi), %r8
        xorq    24(%rsi), %r9
        orq     %rcx, %rax
        orq     %r9, %r8
        movq    32(%rdi), %rcx
        movq    40(%rdi), %r9
        movq    48(%rdi), %r10
        movq    56(%rdi), %r11
        xorq    32(%rsi), %rcx
        xorq    40(%rsi), %r9
        xorq    48(%rsi), %r10
        xorq    56(%rsi), %r11
        orq     %rcx, %rax
        orq     %r9, %r8
        orq     %r11, %r10
        orq     %r8, %rax
        orq     %r10, %rax
        jnz     AgentIsNotSame
        addq    $64, %rdi
        addq    $64, %rsi
        subq    $64, %rdx
        jnz     AgentIsSame
AgentIsSameEnd:
        movl    $1, %eax
        ret
AgentIsNotSame:
        xorl    %eax, %eax
        ret

// void AgentRestoreState(uint64_t* frame): has the kernel take a signal frame's vector state, signal
// mask and alternate stack. Its registers are set here so that the call returns.
        .globl  AgentRestoreState
        .hidden AgentRestoreState
AgentRestoreState:
        pushq   %rbx
        pushq   %rbp
        pushq   %r12
        pushq   %r13
        pushq   %r14
        pushq   %r15
        movq    %rsp, HS_FRAME_RSP(%rdi)
        leaq    1f(%rip), %rax
        movq    %rax, HS_FRAME_RIP(%rdi)
        leaq    8(%rdi), %rsp
        movl    $15, %eax
        syscall
        ud2
1:      popq    %r15
        popq    %r14
        popq    %r13
        popq    %r12
        popq    %rbp
        popq    %rbx
        ret

// Returns from a signal handler of the agent's.
        .globl  AgentRestorer
        .hidden AgentRestorer
AgentRestorer:
        movl    $15, %eax
        syscall
        ud2

        .globl  memcpy, memset
        .hidden memcpy, memset
// REP takes longer to begin than registers take to be copied.
memcpy:
        movq    %rdi, %rax
        cmpq    $512, %rdx
        jae     .Lbytes
.Lwords:
        subq    $16, %rdx
        jb      .Lrest
        movq    (%rsi), %rcx
        movq    8(%rsi), %r8
        movq    %rcx, (%rdi)
        movq    %r8, 8(%rdi)
        addq    $16, %rsi
        addq    $16, %rdi
        jmp     .Lwords
.Lrest:
        addq    $16, %rdx
        je      .Lcopied
.Lbytes:
        movq    %rdx, %rcx
        rep movsb
.Lcopied:
        ret
memset:
        movq    %rdi, %r8
        movl    %esi, %eax
        movq    %rdx, %rcx
        rep stosb
        movq    %r8, %rax
        ret

        .section .note.GNU-stack, "", @progbits
