#include "translator/checks/machine.h"

#include <asm/prctl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstring>
#include <iterator>
#include <utility>

#include "absl/types/span.h"
#include "base/check.h"
#include "isa/host_registers.h"

namespace hindsight {
namespace {

constexpr int kSignals[] = {SIGTRAP, SIGSEGV, SIGBUS, SIGILL, SIGFPE};
constexpr size_t kStackBytes = 1 << 18;

// By hardware number.
constexpr int kGregs[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                          REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

// Keeps what lies at FS base: the code stores there at random, and this process could not end if
// the pointer guard had changed.
class KeptThreadHead {
 public:
  KeptThreadHead() { std::memcpy(bytes_, Head(), sizeof(bytes_)); }
  ~KeptThreadHead() { std::memcpy(Head(), bytes_, sizeof(bytes_)); }
  KeptThreadHead(const KeptThreadHead&) = delete;
  KeptThreadHead& operator=(const KeptThreadHead&) = delete;

 private:
  static void* Head() { return __builtin_thread_pointer(); }

  uint8_t bytes_[0x140];  // as far as a displacement of one byte reaches, and some more
};

// What the handler and Run hand to each other.
struct Exchange {
  bool entering = false, inside = false;
  const RegisterFile* wanted = nullptr;
  bool single_step = false;
  MachineStop stop;
  gregset_t own;
  std::vector<uint8_t> own_vectors;
  std::function<bool(uint64_t)> repair;
  bool trying = false;
  sigjmp_buf after_try;
};

Exchange& TheExchange() {
  static auto* exchange = new Exchange;
  return *exchange;
}

// As much as the kernel has put there: not what a process must ask for (AMX).
absl::Span<uint8_t> Vectors(ucontext_t* context) {
  constexpr size_t kStateBytesAt = 480;  // struct _fpx_sw_bytes, xstate_size
  auto* const image = reinterpret_cast<uint8_t*>(context->uc_mcontext.fpregs);
  uint32_t bytes;
  std::memcpy(&bytes, image + kStateBytesAt, sizeof(bytes));
  return {image, bytes};
}

void Enter(ucontext_t* context) {
  Exchange& exchange = TheExchange();
  greg_t* gregs = context->uc_mcontext.gregs;
  std::memcpy(exchange.own, gregs, sizeof(exchange.own));
  const absl::Span<uint8_t> vectors = Vectors(context);
  exchange.own_vectors.assign(vectors.begin(), vectors.end());
  const RegisterFile& wanted = *exchange.wanted;
  for (int i = 0; i < 16; ++i) gregs[kGregs[i]] = static_cast<greg_t>(wanted.gpr[i]);
  gregs[REG_RIP] = static_cast<greg_t>(wanted.rip);
  gregs[REG_EFL] = static_cast<greg_t>(wanted.rflags | (exchange.single_step ? kTrapFlag : 0));
  RegistersToXstate(wanted, vectors);
  exchange.entering = false;
  exchange.inside = true;
}

void Leave(int signal, const siginfo_t& info, ucontext_t* context) {
  Exchange& exchange = TheExchange();
  greg_t* gregs = context->uc_mcontext.gregs;
  exchange.stop.signal = signal;
  exchange.stop.fault_address = reinterpret_cast<uint64_t>(info.si_addr);
  RegisterFile& registers = exchange.stop.registers;
  for (int i = 0; i < 16; ++i) registers.gpr[i] = static_cast<uint64_t>(gregs[kGregs[i]]);
  registers.rip = static_cast<uint64_t>(gregs[REG_RIP]);
  registers.rflags = static_cast<uint64_t>(gregs[REG_EFL]) & ~(kTrapFlag | kResumeFlag);
  const absl::Span<uint8_t> vectors = Vectors(context);
  CHECK(XstateToRegisters(vectors, &registers));
  std::memcpy(gregs, exchange.own, sizeof(exchange.own));
  std::memcpy(vectors.data(), exchange.own_vectors.data(), vectors.size());
  exchange.inside = false;
}

void Handler(int signal, siginfo_t* info, void* context) {
  Exchange& exchange = TheExchange();
  if (exchange.entering) return Enter(static_cast<ucontext_t*>(context));
  const bool is_access = signal == SIGSEGV || signal == SIGBUS;
  const auto address = reinterpret_cast<uint64_t>(info->si_addr);
  if (is_access && exchange.repair && exchange.repair(address)) return;
  if (exchange.trying) {
    exchange.stop.fault_address = address;
    siglongjmp(exchange.after_try, signal);
  }
  if (exchange.inside) return Leave(signal, *info, static_cast<ucontext_t*>(context));
  // Our own fault: the default action, when it happens again.
  ::signal(signal, SIG_DFL);
}

// Our handlers. Whoever else runs code in this process, as the emulator does, has its own.
class Handlers {
 public:
  Handlers() {
    for (size_t i = 0; i < std::size(kSignals); ++i) {
      struct sigaction action = {};
      action.sa_sigaction = Handler;
      action.sa_flags = SA_SIGINFO | SA_ONSTACK;
      CHECK(sigaction(kSignals[i], &action, &previous_[i]) == 0);
    }
  }
  ~Handlers() {
    for (size_t i = 0; i < std::size(kSignals); ++i) {
      CHECK(sigaction(kSignals[i], &previous_[i], nullptr) == 0);
    }
  }
  Handlers(const Handlers&) = delete;
  Handlers& operator=(const Handlers&) = delete;

 private:
  struct sigaction previous_[std::size(kSignals)];
};

}  // namespace

Machine::Machine() : stack_(kStackBytes) {
  const stack_t stack = {.ss_sp = stack_.data(), .ss_flags = 0, .ss_size = stack_.size()};
  CHECK(sigaltstack(&stack, nullptr) == 0);
}

Machine::~Machine() {
  const stack_t none = {.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
  CHECK(sigaltstack(&none, nullptr) == 0);
}

void Machine::SetRepair(std::function<bool(uint64_t)> repair) {
  TheExchange().repair = std::move(repair);
}

int Machine::Try(const std::function<void()>& function, uint64_t* fault_address) {
  Exchange& exchange = TheExchange();
  const Handlers handlers;
  const KeptThreadHead head;
  exchange.trying = true;
  const int signal = sigsetjmp(exchange.after_try, 1);
  if (signal == 0) function();
  exchange.trying = false;
  *fault_address = exchange.stop.fault_address;
  return signal;
}

MachineStop Machine::Run(const RegisterFile& registers, bool single_step) {
  Exchange& exchange = TheExchange();
  const Handlers handlers;
  const KeptThreadHead head;
  CHECK(syscall(SYS_arch_prctl, ARCH_SET_GS, registers.gs_base) == 0);
  exchange.stop.registers = registers;
  exchange.wanted = &registers;
  exchange.single_step = single_step;
  exchange.entering = true;
  asm volatile("int3" ::: "memory");
  return exchange.stop;
}

}  // namespace hindsight
