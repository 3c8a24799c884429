// Which of the lines that a thread finds changed are what other recorded threads have stored there.
//
// Looks at the views of other threads, which may change or go away meanwhile. Runs inside the
// program: no library, no allocation. Any thread.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_VIEW_KNOWN_LINES_H_
#define HINDSIGHT_RECORDER_TRANSLATE_VIEW_KNOWN_LINES_H_

#include <stdint.h>

#include "recorder/translate/view/thread_view.h"

namespace hindsight {

// The threads of a process, by numbers.
struct OtherViews {
  uint64_t first, last;
  uint64_t (*distance)(uint64_t number);
  // Whether the thread is recorded and holds the page with this index (ThreadView::PageIndex).
  bool (*holds)(uint64_t number, uint64_t index);
  // Whether the thread is about to change memory, or has, and its view is still without that.
  bool (*is_changing)(uint64_t number);
  ThreadView::ReadMemory read;
};

// See ThreadView::KnownLines.
ThreadView::Known KnownToOthers(const OtherViews& others, const ThreadView& own, uint64_t page,
                                uint64_t lines, const uint8_t* bytes);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_VIEW_KNOWN_LINES_H_
