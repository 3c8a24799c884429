// Calls a function that only computes, such as one with which a library chooses between the
// implementations of another (STT_GNU_IFUNC), in an emulator: the process whose memory it reads
// does not notice, and what the function writes is thrown away.

#ifndef HINDSIGHT_EMULATOR_CALLS_PURE_CALL_H_
#define HINDSIGHT_EMULATOR_CALLS_PURE_CALL_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace hindsight {

// Fills `page` with the page of that name at a multiple of the page size; false: there is none.
using GuestPages = absl::FunctionRef<bool(uint64_t address, absl::Span<uint8_t> page)>;

// What the function at `address` returns in rax. It is called without arguments, on a stack of its
// own and with thread-local storage of zeros; cpuid shows this machine. kFailedPrecondition: it
// does not only compute (it makes a system call, needs memory that is not there, or does not come
// to an end). Any thread.
absl::StatusOr<uint64_t> CallPure(GuestPages pages, uint64_t address);

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_CALLS_PURE_CALL_H_
