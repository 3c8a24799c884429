// How the recorder's process treats signals while it records.
//
// Not copyable, not movable; one at a time. Belongs to the thread that made it.

#ifndef HINDSIGHT_RECORDER_HOST_SIGNALS_H_
#define HINDSIGHT_RECORDER_HOST_SIGNALS_H_

#include <signal.h>
#include <sys/types.h>
#include <time.h>

namespace hindsight {

// While alive: SIGINT and SIGQUIT are ignored (a terminal sends them to the program as well),
// SIGTERM and SIGHUP are passed on to `program`, and waiting calls of the making thread are
// interrupted (EINTR) every quarter of a second, so that it can flush the trace while the program
// sleeps.
class HostSignals {
 public:
  explicit HostSignals(pid_t program);
  ~HostSignals();
  HostSignals(const HostSignals&) = delete;
  HostSignals& operator=(const HostSignals&) = delete;

 private:
  struct Saved {
    int signal;
    struct sigaction action;
  };
  void Set(Saved* saved, int signal, void (*handler)(int));

  Saved saved_[5];
  timer_t timer_ = {};
  bool has_timer_ = false;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_HOST_SIGNALS_H_
