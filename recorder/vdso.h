// Makes the functions of a process's vdso ask the kernel.
//
// They compute time and CPU number from pages the kernel changes at will and that cannot be read
// from outside the process. Patched to make the real system call, they leave only what is recorded
// anyway.

#ifndef HINDSIGHT_RECORDER_VDSO_H_
#define HINDSIGHT_RECORDER_VDSO_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "recorder/memory_map.h"
#include "recorder/tracee.h"

namespace hindsight {

struct VdsoPatch {
  uint64_t offset = 0;  // in the image
  std::vector<uint8_t> code;
};

// What to write into the vdso image `image` (as mapped). Functions not known are left alone.
std::vector<VdsoPatch> PlanVdsoPatches(absl::Span<const uint8_t> image);

// Requires: stopped in a fresh image. No vdso, no work.
absl::Status PatchVdso(const MemoryMap& map, Tracee* tracee);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_VDSO_H_
