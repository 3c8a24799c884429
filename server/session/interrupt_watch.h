// Polls for the client's interrupt (Ctrl-C) while the session's thread is running the program, and
// keeps a client from timing out while a query is answered: gdb waits some seconds for a reply to a
// query, and without limit for a stop.
//
// The flag stays raised until it has been acted on (Acted): gdb makes one command of many short
// runs (a condition that it evaluates itself, a step over a line), and an interrupt that arrives
// between two of them, or while one ends for another reason, is meant for the next. One that is
// older than two seconds when a run begins was meant for a command that had just ended: ignored.
//
// The link belongs to the watch between Arm and Disarm, to the session otherwise. A short run costs
// no system call: the watch's thread polls every few milliseconds, and continues to for a while
// after the last run before it sleeps.
//
// Borrows `link` and `interrupt`, which must outlive it. Neither copyable nor movable.

#ifndef HINDSIGHT_SERVER_SESSION_INTERRUPT_WATCH_H_
#define HINDSIGHT_SERVER_SESSION_INTERRUPT_WATCH_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "server/rsp/link.h"

namespace hindsight {

class InterruptWatch {
 public:
  // Raises `interrupt` when the client interrupts or is gone.
  InterruptWatch(rsp::Link* link, std::atomic<bool>* interrupt);
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  // The interrupt has been reported to the client, or does not concern the next run.
  void Acted();

  // Armed while it lives. Raises the flag at once for an interrupt that arrived before.
  class Armed {
   public:
    // `patience`: send the client a sign of life now and then.
    explicit Armed(InterruptWatch* watch, bool patience = false) : watch_(watch) {
      watch_->Arm(patience);
    }
    ~Armed() { watch_->Disarm(); }
    Armed(const Armed&) = delete;
    Armed& operator=(const Armed&) = delete;

   private:
    InterruptWatch* watch_;
  };

 private:
  void Arm(bool patience);
  void Raise();
  void Look();
  void Disarm();
  void Loop();

  rsp::Link* const link_;
  std::atomic<bool>* const interrupt_;

  std::mutex mutex_;
  std::condition_variable wake_;
  bool armed_ = false;  // guarded by mutex_, as are the next ones
  bool patience_ = false;
  std::chrono::steady_clock::time_point heard_;  // when something was last sent to the client
  bool asleep_ = false;  // the thread waits for a notification, not for the next tick
  bool quit_ = false;
  std::chrono::steady_clock::time_point raised_at_;  // while the flag is raised
  std::thread thread_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_SESSION_INTERRUPT_WATCH_H_
