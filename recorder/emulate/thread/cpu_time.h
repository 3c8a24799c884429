// The processor time that system calls report to a program.
//
// The kernel counts what the process itself has used, which is next to nothing: the recorder
// executes its instructions. A program that works until it has used some amount of time would never
// end. So the time its threads were emulated for is added to what calls report.

#ifndef HINDSIGHT_RECORDER_EMULATE_THREAD_CPU_TIME_H_
#define HINDSIGHT_RECORDER_EMULATE_THREAD_CPU_TIME_H_

#include <cstdint>

#include "recorder/ptrace/tracee.h"

namespace hindsight {

struct EmulatedTime {
  uint64_t thread_ns = 0;   // of the thread that asks
  uint64_t process_ns = 0;  // of all threads of its process
};

// Time that a thread was emulated for and that the kernel has not counted as its processor time.
class UncountedTime {
 public:
  uint64_t ns() const { return ns_; }
  // Of that, what the kernel is to count, because a timer runs.
  uint64_t owed_ns() const { return owed_ns_; }

  void Add(uint64_t ns, bool owed) {
    ns_ += ns;
    if (owed) owed_ns_ += ns;
  }
  // The thread has used it up. Requires: no more than it owes.
  void Pay(uint64_t ns) {
    ns_ -= ns;
    owed_ns_ -= ns;
  }

 private:
  uint64_t ns_ = 0;
  uint64_t owed_ns_ = 0;
};

// The same of all threads of a process together.
class ProcessTime {
 public:
  uint64_t ns() const { return ns_; }
  void Add(uint64_t ns) { ns_ += ns; }
  // The kernel has counted so much.
  void Subtract(uint64_t ns) { ns_ -= ns; }
  // A timer or limit counts the process's time: its threads owe what they are emulated for.
  bool limited() const { return limited_; }
  void NoteLimited() { limited_ = true; }

 private:
  uint64_t ns_ = 0;
  bool limited_ = false;
};

// If the system call, which has just succeeded in stopped thread `tracee`, has reported processor
// times (clock_gettime, times, getrusage): adds `time` to them, in the process's memory.
void AddEmulatedTime(int64_t number, const uint64_t* arguments, const EmulatedTime& time,
                     Tracee* tracee);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_THREAD_CPU_TIME_H_
