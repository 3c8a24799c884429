// How the recorder's process treats signals while it records: which of them ask recording to stop,
// and what wakes it from waiting.
//
//   signal to the recorder      program launched by us              program attached to
//   SIGTERM, SIGHUP             stop; the program gets it afterwards  stop
//   SIGINT, SIGQUIT, the first  the program's own affair              stop
//   SIGINT, SIGQUIT, the next   stop                                  stop
//   SIGINT, once it has ended   stop                                  stop
//
// A terminal sends SIGINT and SIGQUIT to all of its foreground process group, so a program launched
// by us has got its own and decides what comes of it; somebody who asks again wants us.
//
// Not copyable, not movable; one at a time. Belongs to the thread that made it: that is the one it
// wakes.

#ifndef HINDSIGHT_RECORDER_SESSION_STOP_REQUEST_H_
#define HINDSIGHT_RECORDER_SESSION_STOP_REQUEST_H_

#include <signal.h>
#include <time.h>

#include <array>
#include <cstdint>

namespace hindsight {

// While alive the signals above mean what the table says, and waiting calls of the making thread
// are interrupted (EINTR) by them, and every quarter of a second, so that it can flush the trace
// while the program sleeps. A request that comes just before a waiting call shows at the next tick.
class StopRequest {
 public:
  enum class Program : uint8_t { kLaunched, kAttached };

  explicit StopRequest(Program program);
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  // The signal that asked recording to stop; 0 while none has. The first one counts.
  int signal() const;
  bool requested() const { return signal() != 0; }
  // The program has ended, which no SIGINT can be meant for any more.
  void HeedInterrupts();
  // What the program is to be sent once recording has stopped and it has been let go; 0: nothing.
  int signal_for_program() const;

 private:
  struct Saved {
    int signal;
    struct sigaction action;
  };

  const Program program_;
  std::array<Saved, 5> saved_ = {};
  timer_t timer_ = {};
  bool has_timer_ = false;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SESSION_STOP_REQUEST_H_
