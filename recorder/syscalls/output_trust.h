// Of what kind the file is that a system call acts on: whether its outputs are trusted
// (trusted_calls.h) depends on it.
//
// Stateless; any thread.

#ifndef HINDSIGHT_RECORDER_SYSCALLS_OUTPUT_TRUST_H_
#define HINDSIGHT_RECORDER_SYSCALLS_OUTPUT_TRUST_H_

#include <string>

#include "recorder/syscalls/trusted_calls.h"

namespace hindsight {

// Of the open file at `path`, "/proc/THREAD/fd/N".
FileKind KindOfFile(const std::string& path);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SYSCALLS_OUTPUT_TRUST_H_
