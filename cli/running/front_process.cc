#include "cli/running/front_process.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "cli/running/exit_status.h"

namespace hindsight {
namespace {

// Until the worker ends: its status.
int PassSignalsOn(pid_t worker, const sigset_t& set) {
  while (true) {
    int status = 0;
    if (waitpid(worker, &status, WNOHANG) == worker) return status;
    siginfo_t info = {};
    const int signal = sigwaitinfo(&set, &info);
    if (signal <= 0 || signal == SIGCHLD) continue;
    const bool from_terminal = (signal == SIGINT || signal == SIGQUIT) && info.si_code == SI_KERNEL;
    if (!from_terminal) kill(worker, signal);
  }
}

}  // namespace

int RunBehindFront(int front_gone, const std::function<int(const sigset_t& mask)>& work) {
  sigset_t set, before;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGHUP, SIGUSR1, SIGINT, SIGQUIT, SIGCHLD}) {
    sigaddset(&set, signal);
  }
  sigprocmask(SIG_BLOCK, &set, &before);
  std::fflush(nullptr);
  const pid_t front = getpid();
  const pid_t worker = fork();
  if (worker > 0) {
    const int status = PassSignalsOn(worker, set);
    sigprocmask(SIG_SETMASK, &before, nullptr);
    return ExitLike(status);
  }
  if (worker < 0) return work(before);
  prctl(PR_SET_PDEATHSIG, front_gone);
  if (getppid() != front) _exit(kExitRecorder);
  const int status = work(before);
  std::fflush(nullptr);
  _exit(status);
}

}  // namespace hindsight
