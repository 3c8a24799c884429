// Which of the lines that a thread finds changed are what other recorded threads have stored there.
//
// Looks at the views of other threads, which may change or go away meanwhile. Any thread.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_AGENT_KNOWN_LINES_H_
#define HINDSIGHT_RECORDER_TRANSLATE_AGENT_KNOWN_LINES_H_

#include <stdint.h>

#include "recorder/translate/view/thread_view.h"

namespace hindsight::agent {

// See ThreadView::KnownLines.
uint64_t KnownToOthers(const ThreadView& own, uint64_t page, uint64_t lines, const uint8_t* bytes);

}  // namespace hindsight::agent

#endif  // HINDSIGHT_RECORDER_TRANSLATE_AGENT_KNOWN_LINES_H_
