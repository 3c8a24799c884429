#include "recorder/ptrace/thread_facts.h"

#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

namespace hindsight {
namespace {

// Newer than the headers of some hosts.
constexpr int kGetRseqConfiguration = 0x420f;
struct RseqConfiguration {
  uint64_t address;
  uint32_t size, signature, flags, pad;
};

}  // namespace

bool IsAtCallEntry(pid_t thread) {
  __ptrace_syscall_info info = {};
  return ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof(info), &info) > 0 &&
         info.op == PTRACE_SYSCALL_INFO_ENTRY;
}

bool Is64Bit(pid_t thread) {
  user_regs_struct registers;
  iovec buffer = {&registers, sizeof(registers)};
  return ptrace(PTRACE_GETREGSET, thread, NT_PRSTATUS, &buffer) == 0 &&
         buffer.iov_len == sizeof(registers);
}

RseqRegistration RseqRegistrationOf(pid_t thread) {
  RseqConfiguration configuration = {};
  const auto request = static_cast<__ptrace_request>(kGetRseqConfiguration);
  if (ptrace(request, thread, sizeof(configuration), &configuration) < 0) return {};
  return {configuration.address, configuration.size, configuration.signature, configuration.flags};
}

uint64_t RseqOf(pid_t thread) { return RseqRegistrationOf(thread).address; }

}  // namespace hindsight
