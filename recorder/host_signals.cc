#include "recorder/host_signals.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace hindsight {
namespace {

// A signal handler has no other way to know; HostSignals exists once at a time.
std::atomic<pid_t> signalled_program{0};

constexpr long kTickNs = 250'000'000;

int TickSignal() { return SIGRTMIN + 7; }

void PassOn(int signal) {
  const pid_t program = signalled_program.load();
  if (program > 0) kill(program, signal);
}

void Nothing(int) {}

}  // namespace

HostSignals::HostSignals(pid_t program) {
  signalled_program = program;
  Set(&saved_[0], SIGINT, SIG_IGN);
  Set(&saved_[1], SIGQUIT, SIG_IGN);
  Set(&saved_[2], SIGTERM, PassOn);
  Set(&saved_[3], SIGHUP, PassOn);
  Set(&saved_[4], TickSignal(), Nothing);

  sigevent event = {};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = TickSignal();
  event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
  has_timer_ = timer_create(CLOCK_MONOTONIC, &event, &timer_) == 0;
  const itimerspec interval = {{0, kTickNs}, {0, kTickNs}};
  if (has_timer_) timer_settime(timer_, 0, &interval, nullptr);
}

HostSignals::~HostSignals() {
  if (has_timer_) timer_delete(timer_);
  signalled_program = 0;
  for (const Saved& saved : saved_) sigaction(saved.signal, &saved.action, nullptr);
}

void HostSignals::Set(Saved* saved, int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;  // no SA_RESTART: waiting must end
  saved->signal = signal;
  sigaction(signal, &action, &saved->action);
}

}  // namespace hindsight
