#include "emulator/view/fault_handler.h"

#include <signal.h>
#include <ucontext.h>

#include <cerrno>
#include <mutex>

namespace hindsight {
namespace {

// The kernel's handler gets no context of ours: these two cannot be members.
thread_local FaultClient* current_client = nullptr;
struct sigaction previous_action;

// Bit 1 of the x86 page fault error code: the access was a write.
constexpr greg_t kErrorWrite = 2;

void PassOn(int signal, siginfo_t* info, void* context) {
  if ((previous_action.sa_flags & SA_SIGINFO) != 0 && previous_action.sa_sigaction != nullptr) {
    previous_action.sa_sigaction(signal, info, context);
    return;
  }
  if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN) {
    previous_action.sa_handler(signal);
    return;
  }
  // Returning repeats the access, now with the default action.
  sigaction(SIGSEGV, &previous_action, nullptr);
}

void OnSegv(int signal, siginfo_t* info, void* context) {
  int saved_errno = errno;
  bool write = (static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & kErrorWrite) != 0;
  FaultClient* client = current_client;
  if (client == nullptr || !client->OnHostFault(info->si_addr, write)) {
    PassOn(signal, info, context);
  }
  errno = saved_errno;
}

void Install() {
  struct sigaction action = {};
  action.sa_sigaction = OnSegv;
  // NODEFER: a fault while answering is a bug and must not be masked into a silent kill.
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, &previous_action);
}

}  // namespace

FaultScope::FaultScope(FaultClient* client) : previous_(current_client) {
  static std::once_flag once;
  std::call_once(once, Install);
  current_client = client;
}

FaultScope::~FaultScope() { current_client = previous_; }

}  // namespace hindsight
