// Logs the transitions of a thread that the kernel makes: the event that lists one and the record
// by which it is replayed, with the same sequence number; and brings the Cpu to the state after it.
//
// Requires, of all methods: the thread is at its sync point.
//
// Borrows the notes and the sync point. Not copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_EMULATE_SYNC_TRANSITION_LOG_H_
#define HINDSIGHT_RECORDER_EMULATE_SYNC_TRANSITION_LOG_H_

#include <string>

#include "isa/registers.h"
#include "recorder/emulate/sync/sync_point.h"
#include "recorder/emulate/thread/call_in_flight.h"
#include "recorder/log/thread_notes.h"
#include "recorder/ptrace/tracee.h"
#include "recorder/syscalls/argument_memory.h"

namespace hindsight {

class TransitionLog {
 public:
  TransitionLog(ThreadNotes* notes, SyncPoint* sync) : notes_(notes), sync_(sync) {}
  TransitionLog(const TransitionLog&) = delete;
  TransitionLog& operator=(const TransitionLog&) = delete;

  // `call` has returned with these registers.
  void SystemCall(const CallInFlight& call, const RegisterFile& after);
  // The processes that `call`, which was logged last, has made.
  void Forks(const CallInFlight& call);
  // `call` has executed `program`, which begins with these registers.
  void Exec(const CallInFlight& call, const std::string& program, const RegisterFile& after);
  // `stop` has delivered a signal, whose handler begins with these registers.
  void Signal(const TraceeStop& stop, const RegisterFile& handler);
  // The same of one without a handler: no register changes.
  void Signal(const TraceeStop& stop) { Signal(stop, sync_->registers()); }
  // A signal has interrupted `call`, and its handler begins with these registers, in the process
  // whose memory `read` reads: if the call has returned something to the program, that is logged.
  // If it will be made again, nothing is: it is as if the signal had come before the call.
  void InterruptedCall(const CallInFlight& call, const RegisterFile& handler,
                       const ReadMemory& read);

 private:
  ThreadNotes* const notes_;
  SyncPoint* const sync_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_SYNC_TRANSITION_LOG_H_
