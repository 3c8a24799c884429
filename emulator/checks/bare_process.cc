#include "emulator/checks/bare_process.h"

#include <elf.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/check.h"
#include "base/status_macros.h"
#include "isa/host_registers.h"

namespace hindsight {
namespace {

// The sixth argument of the system calls that our own code makes while it empties the process.
constexpr uint32_t kPass = 0x5eed'ca11;

// A function of five addresses: unmaps what lies before the first, from the second to the third,
// and from the fourth to the fifth, which includes its stack.
asm(R"(
.pushsection .text
.balign 16
hindsight_bare_begin:
  mov %rcx, %r13
  mov %r8, %r14
  mov %rsi, %r12
  mov %rdx, %r15
  mov $0x5eedca11, %r9d
  mov %rdi, %rsi
  xor %edi, %edi
  mov $11, %eax
  syscall
  mov %r12, %rdi
  mov %r15, %rsi
  sub %r12, %rsi
  mov $11, %eax
  syscall
  mov %r13, %rdi
  mov %r14, %rsi
  sub %r13, %rsi
  mov $11, %eax
  syscall
  int3
hindsight_bare_end:
.popsection
)");

extern "C" {
extern const uint8_t hindsight_bare_begin[], hindsight_bare_end[];
}

// Every system call fails but those with the pass.
void RefuseSystemCalls() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[5])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kPass, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
  };
  sock_fprog program = {.len = sizeof(filter) / sizeof(filter[0]), .filter = filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    _exit(1);
  }
}

// The C library has the kernel write to its memory at every context switch, which will be gone.
void LeaveRseq() {
  constexpr unsigned kBytes = 32;  // as the C library registers it
  if (__rseq_size == 0) return;
  void* const area = static_cast<char*>(__builtin_thread_pointer()) + __rseq_offset;
  if (syscall(SYS_rseq, area, kBytes, RSEQ_FLAG_UNREGISTER, RSEQ_SIG) != 0) _exit(1);
}

// Runs in the child; never returns.
[[noreturn]] void BecomeBare(int file) {
  constexpr uint64_t kEndOfAddresses = 0x7fff'ffff'f000;
  auto place = [file](uint64_t at, uint64_t bytes, uint64_t offset, int rights) {
    if (mmap(reinterpret_cast<void*>(at), bytes, rights, MAP_SHARED | MAP_FIXED, file,
             static_cast<off_t>(offset)) == MAP_FAILED) {
      _exit(1);
    }
  };
  place(BareProcess::kCode, BareProcess::kCodeBytes, 0, PROT_READ | PROT_EXEC);
  place(BareProcess::kMemory, BareProcess::kMemoryBytes, BareProcess::kCodeBytes,
        PROT_READ | PROT_WRITE);
  if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(1);
  LeaveRseq();
  RefuseSystemCalls();
  using Empty = void (*)(uint64_t memory, uint64_t behind_memory, uint64_t code,
                         uint64_t behind_code, uint64_t end);
  reinterpret_cast<Empty>(BareProcess::kCode)(
      BareProcess::kMemory, BareProcess::kMemory + BareProcess::kMemoryBytes, BareProcess::kCode,
      BareProcess::kCode + BareProcess::kCodeBytes, kEndOfAddresses);
  __builtin_unreachable();
}

}  // namespace

absl::StatusOr<std::unique_ptr<BareProcess>> BareProcess::Launch() {
  const int file = memfd_create("bare", MFD_CLOEXEC);
  if (file < 0) return absl::ErrnoToStatus(errno, "memfd_create");
  constexpr size_t kBytes = kCodeBytes + kMemoryBytes;
  void* shared = MAP_FAILED;
  if (ftruncate(file, kBytes) == 0) {
    shared = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  if (shared == MAP_FAILED) {
    close(file);
    return absl::ErrnoToStatus(errno, "memory of a bare process");
  }
  auto process = std::unique_ptr<BareProcess>(new BareProcess(static_cast<uint8_t*>(shared), file));
  process->image_.resize(XstateBytes());
  RETURN_IF_ERROR(process->Start());
  return process;
}

BareProcess::~BareProcess() {
  Kill();
  munmap(shared_, kCodeBytes + kMemoryBytes);
  close(file_);
}

void BareProcess::Kill() {
  if (pid_ == 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

absl::Status BareProcess::Start() {
  std::memcpy(shared_, hindsight_bare_begin,
              static_cast<size_t>(hindsight_bare_end - hindsight_bare_begin));
  pid_ = fork();
  if (pid_ < 0) return absl::ErrnoToStatus(errno, "fork");
  if (pid_ == 0) BecomeBare(file_);
  int status = 0;
  if (waitpid(pid_, &status, 0) != pid_ || !WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP) {
    Kill();
    return absl::UnavailableError("a bare process does not start");
  }
  ptrace(PTRACE_SETOPTIONS, pid_, nullptr, PTRACE_O_EXITKILL);
  CHECK(ptrace(PTRACE_GETREGS, pid_, nullptr, &general_) == 0);
  initial_ = GetRegisters();
  return absl::OkStatus();
}

void BareProcess::SetRegisters(const RegisterFile& registers) {
  user_regs_struct general = general_;
  RegistersToGeneral(registers, &general);
  general.orig_rax = ~uint64_t{0};  // no system call to go on with
  CHECK(ptrace(PTRACE_SETREGS, pid_, nullptr, &general) == 0);
  std::memset(image_.data(), 0, image_.size());
  RegistersToXstate(registers, absl::MakeSpan(image_));
  iovec vec = {image_.data(), image_.size()};
  CHECK(ptrace(PTRACE_SETREGSET, pid_, NT_X86_XSTATE, &vec) == 0);
}

RegisterFile BareProcess::GetRegisters() {
  user_regs_struct general;
  CHECK(ptrace(PTRACE_GETREGS, pid_, nullptr, &general) == 0);
  RegisterFile registers;
  GeneralToRegisters(general, &registers);
  iovec vec = {image_.data(), image_.size()};
  CHECK(ptrace(PTRACE_GETREGSET, pid_, NT_X86_XSTATE, &vec) == 0);
  CHECK(XstateToRegisters(absl::MakeSpan(image_.data(), vec.iov_len), &registers));
  return registers;
}

int BareProcess::Step() {
  int status = 0;
  if (ptrace(PTRACE_SINGLESTEP, pid_, nullptr, 0) != 0 || waitpid(pid_, &status, 0) != pid_) {
    return -1;
  }
  if (!WIFSTOPPED(status)) {
    pid_ = 0;  // reaped
    return -1;
  }
  if (WSTOPSIG(status) != SIGTRAP) return WSTOPSIG(status);
  siginfo_t info = {};
  CHECK(ptrace(PTRACE_GETSIGINFO, pid_, nullptr, &info) == 0);
  return info.si_code == TRAP_TRACE ? 0 : SIGTRAP;
}

absl::StatusOr<int> BareProcess::Execute(bool rep, RegisterFile* registers) {
  constexpr int kMaxIterations = 1000;
  SetRegisters(*registers);
  for (int i = 0; i < kMaxIterations; ++i) {
    const int signal = Step();
    if (signal < 0) {
      Kill();
      RETURN_IF_ERROR(Start());
      return SIGKILL;
    }
    if (signal != 0) return signal;
    const RegisterFile after = GetRegisters();
    // A REP instruction stays where it is until it is done.
    if (rep && after.rip == registers->rip && i + 1 < kMaxIterations) continue;
    *registers = after;
    break;
  }
  return 0;
}

}  // namespace hindsight
