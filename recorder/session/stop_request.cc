#include "recorder/session/stop_request.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

namespace hindsight {
namespace {

// A signal handler has no other place to write to; StopRequest exists once at a time.
std::atomic<int> stop_signal{0};
std::atomic<int> interrupts_to_ignore{0};
std::atomic<uint64_t> snapshot_signals{0};

constexpr long kTickNs = 250'000'000;

int TickSignal() { return SIGRTMIN + 7; }

void AskToStop(int signal) {
  int none = 0;
  stop_signal.compare_exchange_strong(none, signal);
}

void Interrupt(int signal) {
  if (interrupts_to_ignore.fetch_sub(1) <= 0) AskToStop(signal);
}

void AskForSnapshot(int) { snapshot_signals.fetch_add(1); }

void Nothing(int) {}

using Handler = void (*)(int);

Handler HandlerOf(int signal) {
  switch (signal) {
    case SIGINT:
    case SIGQUIT:
      return Interrupt;
    case SIGUSR1:
      return AskForSnapshot;
    default:
      return signal == TickSignal() ? Nothing : AskToStop;
  }
}

}  // namespace

StopRequest::StopRequest(Program program) : program_(program) {
  stop_signal = 0;
  interrupts_to_ignore = program == Program::kLaunched ? 1 : 0;
  snapshot_signals = 0;
  saved_ = {{{SIGTERM, {}},
             {SIGHUP, {}},
             {SIGINT, {}},
             {SIGQUIT, {}},
             {SIGUSR1, {}},
             {TickSignal(), {}}}};
  for (Saved& saved : saved_) {
    struct sigaction action = {};  // no SA_RESTART: waiting must end
    action.sa_handler = HandlerOf(saved.signal);
    sigaction(saved.signal, &action, &saved.action);
    // nohup, and shells that start a job in the background, have it ignored: that stays so.
    if (saved.action.sa_handler == SIG_IGN && saved.signal != TickSignal()) {
      sigaction(saved.signal, &saved.action, nullptr);
    }
  }

  sigevent event = {};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = TickSignal();
  event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
  has_timer_ = timer_create(CLOCK_MONOTONIC, &event, &timer_) == 0;
  const itimerspec interval = {{0, kTickNs}, {0, kTickNs}};
  if (has_timer_) timer_settime(timer_, 0, &interval, nullptr);
}

StopRequest::~StopRequest() {
  if (has_timer_) timer_delete(timer_);
  for (const Saved& saved : saved_) sigaction(saved.signal, &saved.action, nullptr);
}

int StopRequest::signal() const { return stop_signal.load(); }

uint64_t StopRequest::snapshots_wanted() const { return snapshot_signals.load(); }

void StopRequest::TickWithin(uint64_t ns) {
  if (!has_timer_ || ns >= kTickNs) return;
  // No time at all would stop the timer.
  const itimerspec next = {{0, kTickNs}, {0, std::max(1L, static_cast<long>(ns))}};
  timer_settime(timer_, 0, &next, nullptr);
}

void StopRequest::StopOnInterrupt() { interrupts_to_ignore = 0; }

int StopRequest::signal_for_program() const {
  const int asked = signal();
  if (program_ == Program::kAttached) return 0;
  return asked == SIGTERM || asked == SIGHUP ? asked : 0;
}

}  // namespace hindsight
