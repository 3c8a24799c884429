#include "emulator/checks/native_stub.h"

#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstring>

#include "base/check.h"
#include "isa/host_registers.h"

// The block is position independent: code, then the hole for the instruction, then, one page on,
// the operands, addressed relative to rip so that every general register is the guest's own.
asm(R"(
.pushsection .text
.balign 64
hindsight_stub_begin:
  push %rbx
  push %rbp
  push %r12
  push %r13
  push %r14
  push %r15
  pushfq
  mov %rsp, hindsight_stub_host_rsp(%rip)
  mov hindsight_stub_components+0(%rip), %eax
  mov hindsight_stub_components+4(%rip), %edx
  xrstor64 hindsight_stub_vectors(%rip)
  lea hindsight_stub_flags(%rip), %rsp
  popfq
  mov hindsight_stub_gpr+0(%rip), %rax
  mov hindsight_stub_gpr+8(%rip), %rcx
  mov hindsight_stub_gpr+16(%rip), %rdx
  mov hindsight_stub_gpr+24(%rip), %rbx
  mov hindsight_stub_gpr+32(%rip), %rsp
  mov hindsight_stub_gpr+40(%rip), %rbp
  mov hindsight_stub_gpr+48(%rip), %rsi
  mov hindsight_stub_gpr+56(%rip), %rdi
  mov hindsight_stub_gpr+64(%rip), %r8
  mov hindsight_stub_gpr+72(%rip), %r9
  mov hindsight_stub_gpr+80(%rip), %r10
  mov hindsight_stub_gpr+88(%rip), %r11
  mov hindsight_stub_gpr+96(%rip), %r12
  mov hindsight_stub_gpr+104(%rip), %r13
  mov hindsight_stub_gpr+112(%rip), %r14
  mov hindsight_stub_gpr+120(%rip), %r15
hindsight_stub_hole:
  .fill 16, 1, 0x90
  mov %rax, hindsight_stub_gpr+0(%rip)
  mov %rcx, hindsight_stub_gpr+8(%rip)
  mov %rdx, hindsight_stub_gpr+16(%rip)
  mov %rbx, hindsight_stub_gpr+24(%rip)
  mov %rsp, hindsight_stub_gpr+32(%rip)
  mov %rbp, hindsight_stub_gpr+40(%rip)
  mov %rsi, hindsight_stub_gpr+48(%rip)
  mov %rdi, hindsight_stub_gpr+56(%rip)
  mov %r8, hindsight_stub_gpr+64(%rip)
  mov %r9, hindsight_stub_gpr+72(%rip)
  mov %r10, hindsight_stub_gpr+80(%rip)
  mov %r11, hindsight_stub_gpr+88(%rip)
  mov %r12, hindsight_stub_gpr+96(%rip)
  mov %r13, hindsight_stub_gpr+104(%rip)
  mov %r14, hindsight_stub_gpr+112(%rip)
  mov %r15, hindsight_stub_gpr+120(%rip)
  lea hindsight_stub_flags+8(%rip), %rsp
  pushfq
  mov hindsight_stub_host_rsp(%rip), %rsp
  mov hindsight_stub_components+0(%rip), %eax
  mov hindsight_stub_components+4(%rip), %edx
  xsave64 hindsight_stub_vectors(%rip)
  xrstor64 hindsight_stub_host(%rip)
  popfq
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbp
  pop %rbx
  ret
.balign 4096
hindsight_stub_operands:
hindsight_stub_host_rsp:
  .quad 0
  .quad 0
hindsight_stub_flags:
  .quad 0
  .quad 0
hindsight_stub_gpr:
  .fill 16, 8, 0
hindsight_stub_components:
  .quad 0
  .balign 64
hindsight_stub_vectors:
  .fill 4096, 1, 0
hindsight_stub_host:
  .fill 4096, 1, 0
hindsight_stub_end:
.popsection
)");

extern "C" {
extern const uint8_t hindsight_stub_begin[], hindsight_stub_hole[], hindsight_stub_operands[],
    hindsight_stub_flags[], hindsight_stub_gpr[], hindsight_stub_components[],
    hindsight_stub_vectors[], hindsight_stub_host[], hindsight_stub_end[];
}

namespace hindsight {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
constexpr size_t kAlternateStackBytes = 64 << 10;
// As much as the block has room for.
constexpr size_t kVectorBytes = 4096;
// x87, SSE, AVX, opmask, both of ZMM. Asking for what the host has not enabled is harmless.
constexpr uint64_t kComponents = 0xe7;

sigjmp_buf escape;  // one NativeStub runs at a time

void OnSignal(int number) { siglongjmp(escape, number); }

size_t Offset(const uint8_t* symbol) { return symbol - hindsight_stub_begin; }

void Load(const RegisterFile& registers, uint8_t* block) {
  uint8_t* const vectors = block + Offset(hindsight_stub_vectors);
  std::memset(vectors, 0, kVectorBytes);
  RegistersToXstate(registers, absl::MakeSpan(vectors, kVectorBytes));
  std::memcpy(block + Offset(hindsight_stub_components), &kComponents, sizeof(kComponents));
  std::memcpy(block + Offset(hindsight_stub_gpr), registers.gpr, sizeof(registers.gpr));
  std::memcpy(block + Offset(hindsight_stub_flags), &registers.rflags, sizeof(registers.rflags));
}

void Store(const uint8_t* block, RegisterFile* registers) {
  CHECK(XstateToRegisters(absl::MakeConstSpan(block + Offset(hindsight_stub_vectors), kVectorBytes),
                          registers));
  std::memcpy(registers->gpr, block + Offset(hindsight_stub_gpr), sizeof(registers->gpr));
  std::memcpy(&registers->rflags, block + Offset(hindsight_stub_flags), sizeof(registers->rflags));
}

}  // namespace

NativeStub::NativeStub() {
  CHECK(XstateBytes() != 0);  // kComponents take less than kVectorBytes, whatever else there is
  const size_t size = Offset(hindsight_stub_end) + kAlternateStackBytes;
  void* block =
      mmap(nullptr, size, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(block != MAP_FAILED);
  block_ = static_cast<uint8_t*>(block);
  std::memcpy(block_, hindsight_stub_begin, Offset(hindsight_stub_end));
}

NativeStub::~NativeStub() { munmap(block_, Offset(hindsight_stub_end) + kAlternateStackBytes); }

uint64_t NativeStub::code_address() const {
  return reinterpret_cast<uint64_t>(block_) + Offset(hindsight_stub_hole);
}

int NativeStub::Run(absl::Span<const uint8_t> code, RegisterFile* registers) {
  CHECK(!code.empty() && code.size() <= 15);
  uint8_t* hole = block_ + Offset(hindsight_stub_hole);
  std::memset(hole, 0x90, 16);
  std::memcpy(hole, code.data(), code.size());
  Load(*registers, block_);
  uint8_t* host = block_ + Offset(hindsight_stub_host);
  asm volatile("xsave64 (%0)" ::"r"(host), "a"(kComponents), "d"(0) : "memory");

  // rsp is the guest's, so signals need a stack of their own.
  stack_t stack = {}, old_stack;
  stack.ss_sp = block_ + Offset(hindsight_stub_end);
  stack.ss_size = kAlternateStackBytes;
  CHECK(sigaltstack(&stack, &old_stack) == 0);
  struct sigaction action = {}, old_actions[std::size(kSignals)];
  action.sa_handler = OnSignal;
  action.sa_flags = SA_ONSTACK;
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    sigaction(kSignals[i], &action, &old_actions[i]);
  }
  const int signal = sigsetjmp(escape, 1);
  if (signal == 0) {
    reinterpret_cast<void (*)()>(block_)();
    Store(block_, registers);
    registers->rip += code.size();
  } else {
    // The instruction has left flags (DF, AC) and x87 state.
    asm volatile("push $0x202; popfq; cld; xrstor64 (%0)" ::"r"(host), "a"(kComponents), "d"(0)
                 : "memory", "cc");
  }
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    sigaction(kSignals[i], &old_actions[i], nullptr);
  }
  sigaltstack(&old_stack, nullptr);
  return signal;
}

}  // namespace hindsight
