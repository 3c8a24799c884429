// The processor time a program is told it has used.
//
// The kernel counts what the process itself has used, which is next to nothing: its instructions
// are executed by the recorder. A program that works until it has used so much time would work for
// ever. So the time its threads have been emulated for is added where it asks.

#ifndef HINDSIGHT_RECORDER_EMULATE_THREAD_CPU_TIME_H_
#define HINDSIGHT_RECORDER_EMULATE_THREAD_CPU_TIME_H_

#include <cstdint>

#include "recorder/ptrace/tracee.h"

namespace hindsight {

struct EmulatedTime {
  uint64_t thread_ns = 0;   // of the thread that asks
  uint64_t process_ns = 0;  // of all threads of its process
};

// If the system call, which has just succeeded in stopped thread `tracee`, has told it processor
// times (clock_gettime, times, getrusage): adds `time` to them, in the process's memory.
void AddEmulatedTime(int64_t number, const uint64_t* arguments, const EmulatedTime& time,
                     Tracee* tracee);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_THREAD_CPU_TIME_H_
