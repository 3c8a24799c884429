// Looks for the client's interrupt (Ctrl-C) while the session's thread is busy running, and keeps a
// client patient that waits for an answer: gdb gives up a question after some seconds of silence,
// but a run never.
//
// The flag stays raised until somebody has acted on it (Acted): gdb makes one command of many short
// runs (a condition that it evaluates itself, a step over a line), and an interrupt that comes
// between two of them, or while one ends for another reason, is meant for the next. What is older
// than two seconds when a run begins was meant for a command that had just ended, and is forgotten.
//
// Takes turns with that thread at the link: outside Arm..Disarm the link belongs to the session, in
// between to the watch. A run that ends soon costs no system call: the watch's thread looks every
// few milliseconds and goes on ticking for a while after the last run before it sleeps for good.
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

  // The interrupt has been reported to the client, or is none of the next run's business.
  void Acted();

  // Armed for as long as it lives. Raises the flag at once for an interrupt that came before.
  class Armed {
   public:
    // `patience`: whether the client must be told now and then that it is not forgotten.
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
  std::chrono::steady_clock::time_point heard_;  // when the client heard of us last
  bool asleep_ = false;  // the thread waits for a notification, not for the next tick
  bool quit_ = false;
  std::chrono::steady_clock::time_point raised_at_;  // while the flag is raised
  std::thread thread_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_SESSION_INTERRUPT_WATCH_H_
