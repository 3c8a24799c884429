// How the recorder's process treats signals while it records: which of them ask recording to stop,
// and what wakes it from waiting.
//
//   signal to the recorder      program launched by us                program attached to
//   SIGTERM, SIGHUP             stop; the program gets it afterwards  stop
//   SIGINT, SIGQUIT, the first  ignored: the program handles it       stop
//   SIGINT, SIGQUIT, the next   stop                                  stop
//   SIGINT, once it has ended   stop                                  stop
//   SIGUSR1                     a snapshot, of every process          a snapshot
//
// A terminal sends SIGINT and SIGQUIT to all of its foreground process group, so a program that was
// launched has received its own and decides what to do; a second one is meant for the recorder.
//
// Not copyable, not movable; one at a time. It wakes the thread that made it.

#ifndef HINDSIGHT_RECORDER_SESSION_STOP_REQUEST_H_
#define HINDSIGHT_RECORDER_SESSION_STOP_REQUEST_H_

#include <signal.h>
#include <time.h>

#include <array>
#include <cstdint>

namespace hindsight {

// As long as it exists the signals have the meanings above and interrupt (EINTR) blocking calls of
// the thread that made it. So does a tick every quarter of a second, so that the thread can flush
// the trace while the program sleeps; a request just before a blocking call is noticed at the next
// tick.
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
  // How often SIGUSR1 has come.
  uint64_t snapshots_wanted() const;
  // The next tick comes after at most so long.
  void TickWithin(uint64_t ns);
  // The program has ended: from now on the first SIGINT stops recording.
  void StopOnInterrupt();
  // The signal to send to the program once recording has stopped and it is detached; 0: none.
  int signal_for_program() const;

 private:
  struct Saved {
    int signal;
    struct sigaction action;
  };

  const Program program_;
  std::array<Saved, 6> saved_ = {};
  timer_t timer_ = {};
  bool has_timer_ = false;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SESSION_STOP_REQUEST_H_
