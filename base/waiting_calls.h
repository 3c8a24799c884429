// Which system calls a thread may wait in while others go on, and nobody need fear that the kernel
// stores something for it meanwhile.
//
// Stateless; any thread.

#ifndef HINDSIGHT_BASE_WAITING_CALLS_H_
#define HINDSIGHT_BASE_WAITING_CALLS_H_

#include <cstdint>

#include "absl/types/span.h"

namespace hindsight {

// Whether the call stores nothing in the process's memory, however long it waits and however it
// ends. False also where that is not known, or an argument that tells is missing.
bool StoresNothing(int64_t number, absl::Span<const uint64_t> arguments);

}  // namespace hindsight

#endif  // HINDSIGHT_BASE_WAITING_CALLS_H_
