#include "emulator/checks/stepped_process.h"

#include <elf.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "isa/host_registers.h"

namespace hindsight {
namespace {

// Runs in the child; never returns.
[[noreturn]] void Execute(char* const* argv) {
  const int null = open("/dev/null", O_RDWR);
  dup2(null, 0);
  dup2(null, 1);
  dup2(null, 2);
  personality(ADDR_NO_RANDOMIZE);
  ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
  execvp(argv[0], argv);
  _exit(127);
}

}  // namespace

void SteppedProcess::StayOnOneProcessor() {
  const int processor = sched_getcpu();
  if (processor < 0) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

absl::StatusOr<std::unique_ptr<SteppedProcess>> SteppedProcess::Launch(
    const std::vector<std::string>& argv) {
  CHECK(!argv.empty());
  std::vector<char*> arguments;
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const pid_t pid = fork();
  if (pid < 0) return absl::ErrnoToStatus(errno, "fork");
  if (pid == 0) Execute(arguments.data());
  auto process = std::unique_ptr<SteppedProcess>(new SteppedProcess(pid));
  int status = 0;
  if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)) {
    process->gone_ = true;
    return absl::NotFoundError(absl::StrCat("cannot run ", argv[0]));
  }
  ptrace(PTRACE_SETOPTIONS, pid, nullptr, PTRACE_O_EXITKILL);
  return process;
}

SteppedProcess::~SteppedProcess() {
  if (gone_) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

RegisterFile SteppedProcess::registers() const {
  user_regs_struct general;
  CHECK(ptrace(PTRACE_GETREGS, pid_, nullptr, &general) == 0);
  RegisterFile registers;
  GeneralToRegisters(general, &registers);
  std::vector<uint8_t> image(XstateBytes());
  iovec vec = {image.data(), image.size()};
  if (image.empty()) {
    user_fpregs_struct floating;
    CHECK(ptrace(PTRACE_GETFPREGS, pid_, nullptr, &floating) == 0);
    VectorsToRegisters(floating, &registers);
  } else {
    CHECK(ptrace(PTRACE_GETREGSET, pid_, NT_X86_XSTATE, &vec) == 0);
    CHECK(XstateToRegisters(absl::MakeSpan(image.data(), vec.iov_len), &registers));
  }
  return registers;
}

void SteppedProcess::SetRegisters(const RegisterFile& registers) {
  user_regs_struct general;
  CHECK(ptrace(PTRACE_GETREGS, pid_, nullptr, &general) == 0);
  RegistersToGeneral(registers, &general);
  CHECK(ptrace(PTRACE_SETREGS, pid_, nullptr, &general) == 0);
}

bool SteppedProcess::Step() {
  const int signal = pending_signal_;
  pending_signal_ = 0;
  CHECK(ptrace(PTRACE_SINGLESTEP, pid_, nullptr, signal) == 0);
  CHECK(waitpid(pid_, &wait_status_, 0) == pid_);
  if (!WIFSTOPPED(wait_status_)) {
    gone_ = true;
    return false;
  }
  if (WSTOPSIG(wait_status_) != SIGTRAP) pending_signal_ = WSTOPSIG(wait_status_);
  return true;
}

bool SteppedProcess::Read(uint64_t address, absl::Span<uint8_t> out) const {
  iovec local = {out.data(), out.size()};
  iovec remote = {reinterpret_cast<void*>(address), out.size()};
  return process_vm_readv(pid_, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(out.size());
}

void SteppedProcess::WriteByte(uint64_t address, uint8_t byte) {
  iovec local = {&byte, 1};
  iovec remote = {reinterpret_cast<void*>(address), 1};
  CHECK(process_vm_writev(pid_, &local, 1, &remote, 1, 0) == 1);
}

}  // namespace hindsight
