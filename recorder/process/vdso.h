// Patches the functions of a process's vdso to make system calls.
//
// They compute time and CPU number from pages that the kernel changes at any time and that cannot
// be read from outside the process. The results of system calls are recorded anyway.

#ifndef HINDSIGHT_RECORDER_PROCESS_VDSO_H_
#define HINDSIGHT_RECORDER_PROCESS_VDSO_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "recorder/process/memory_map.h"
#include "recorder/process/process_memory.h"

namespace hindsight {

// The code of one function is followed by a loop, in which a thread uses up time natively, and by a
// system call that returns to a signal frame.
struct VdsoPatch {
  uint64_t address = 0;
  std::vector<uint8_t> code;
  std::vector<uint8_t> original;  // what `code` replaces; as long
};

// What to write into the vdso image `image`, mapped at `base`. Functions not known are left alone.
std::vector<VdsoPatch> PlanVdsoPatches(uint64_t base, absl::Span<const uint8_t> image);

// Where a patched vdso has an instruction that jumps to itself, if it has one.
std::optional<uint64_t> FindVdsoLoop(absl::Span<const VdsoPatch> patches);

// Where it has a system call that is followed by rt_sigreturn, if it has one.
std::optional<uint64_t> FindVdsoCall(absl::Span<const VdsoPatch> patches);

// Patches the vdso of the stopped process with this map and memory, and returns what it replaced,
// for RestoreVdso. Nothing is done without a vdso. Patches that a fork has inherited are returned
// as well: `original` is what this process's own vdso has there, which is the same.
// Requires: no thread is in the vdso; `memory` can write to pages without the right to.
absl::StatusOr<std::vector<VdsoPatch>> PatchVdso(const MemoryMap& map, ProcessMemory* memory);
// Requires: no thread is inside a patch, see LeaveVdsoPatch. Pages no longer mapped are not an
// error.
absl::Status RestoreVdso(absl::Span<const VdsoPatch> patches, ProcessMemory* memory);

// If the thread of these registers is in the middle of a patch: lets it go back to the beginning of
// the function, or return from it if it has made the system call. True if the registers changed.
// `return_address` is the word at rsp.
bool LeaveVdsoPatch(absl::Span<const VdsoPatch> patches, uint64_t return_address, uint64_t* rip,
                    uint64_t* rsp);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PROCESS_VDSO_H_
