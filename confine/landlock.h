// The files that a process may open, enforced by the kernel's Landlock.

#ifndef HINDSIGHT_CONFINE_LANDLOCK_H_
#define HINDSIGHT_CONFINE_LANDLOCK_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace hindsight {

// From now on the calling thread, and those it will start, can open files only for reading, and
// only those beneath `directories` (descriptors); if the kernel supports it, they can neither bind
// nor connect TCP sockets, nor reach abstract sockets or processes outside. Open descriptors
// are unaffected. kUnimplemented: this kernel has no Landlock, or it is switched off.
// Requires: no_new_privs is set; no other thread runs.
absl::Status RestrictFiles(absl::Span<const int> directories);

}  // namespace hindsight

#endif  // HINDSIGHT_CONFINE_LANDLOCK_H_
