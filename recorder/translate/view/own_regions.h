// The program's own regions of memory, as the kernel lists them in /proc/self/maps.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_VIEW_OWN_REGIONS_H_
#define HINDSIGHT_RECORDER_TRANSLATE_VIEW_OWN_REGIONS_H_

#include <stdint.h>

namespace hindsight {

struct OwnRegion {
  uint64_t start, end;
  bool readable, writable, shared;
  bool is_vdso;
  bool is_clock;  // what the vdso reads the time from
};

// The number that `text` begins with, and what follows it.
uint64_t ReadHex(const char** text);

// Calls `visit(context, region)` for each, ascending; those that follow each other and do not
// differ here may be one. False: they cannot be read. They are read once, and again after
// ForgetOwnRegions. The process's one thread.
bool ForEachOwnRegion(void (*visit)(void* context, const OwnRegion& region), void* context);

// Whether all of [start, end) may be stored to. Not known: false.
bool IsOwnWritable(uint64_t start, uint64_t end);

// Something is mapped differently.
void ForgetOwnRegions();

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_VIEW_OWN_REGIONS_H_
