// Facts about a process for the manifest.

#ifndef HINDSIGHT_RECORDER_PROCESS_PROCESS_FACTS_H_
#define HINDSIGHT_RECORDER_PROCESS_PROCESS_FACTS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace hindsight {

// Absolute path of the program the process runs; empty if it cannot be known.
std::string ExecutablePath(pid_t pid);
// The tasks of a process; none if it is gone.
std::vector<pid_t> ThreadsOf(pid_t process);
// The process that task `thread` belongs to; 0 if it is gone.
pid_t ProcessOf(pid_t thread);
// As the process shows them now; empty if it is gone.
std::vector<std::string> CommandLine(pid_t pid);
// As it was when the process started its program.
std::vector<std::string> Environment(pid_t pid);
std::string WorkingDirectory(pid_t pid);
// A field of /proc/PID/status that is a number ("Tgid:"); 0 if there is none.
int64_t StatusNumber(pid_t pid, absl::string_view field);
// The fields of /proc/PID/stat, as proc(5) numbers them but from 0; those that are no numbers are
// 0. Empty if the process is gone.
std::vector<uint64_t> StatFields(pid_t pid);
// The letter of proc(5) for what the task does: 'R', 'S', 'T', ...; 0 if it is gone.
char TaskState(pid_t task);
// Whether the process has memory. One that ends gives it back before anything else of it is gone.
bool HasMemory(pid_t pid);
// Type, value, ...: the auxiliary vector as the kernel made it.
std::vector<uint64_t> AuxiliaryVector(pid_t pid);
// Whether two processes (or threads) share their memory, as after vfork; `otherwise` if the kernel
// cannot be asked.
bool SharesMemory(pid_t a, pid_t b, bool otherwise);
std::string CpuBrand();

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PROCESS_PROCESS_FACTS_H_
