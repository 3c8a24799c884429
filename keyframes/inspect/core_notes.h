// The notes of a core file: all that it says of a process but its memory.

#ifndef HINDSIGHT_KEYFRAMES_INSPECT_CORE_NOTES_H_
#define HINDSIGHT_KEYFRAMES_INSPECT_CORE_NOTES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "keyframes/inspect/process_view.h"

namespace hindsight {

// A note of our own: the owner, and the type of the text of ProcessView::Missing. It is the last
// one, and there only if that is not empty. Debuggers pass over owners that they do not know.
inline constexpr char kHindsightNote[] = "Hindsight";
inline constexpr uint32_t kMissingNote = 1;

// The contents of PT_NOTE, in the kernel's order, with `thread` first: debuggers select the first
// one. What the view does not know (times, pending signals, the group) is zero. `extended`: whether
// the registers have what only AVX and AVX-512 have. Errors are those of the view.
absl::StatusOr<std::string> CoreNotes(ProcessView* view, int32_t thread, bool extended);

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_INSPECT_CORE_NOTES_H_
