// What a user reads on the console at stops, where the stop reply alone says too little: how the
// program ended, what a system call's arguments are, where memory was not known.
//
// Borrows trace and timeline, which must outlive it. One thread at a time.

#ifndef HINDSIGHT_SERVER_TARGET_STOP_NOTES_H_
#define HINDSIGHT_SERVER_TARGET_STOP_NOTES_H_

#include <string>

#include "keyframes/timeline/timeline.h"
#include "server/target/target.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

class StopNotes {
 public:
  StopNotes(const TraceReader* trace, Timeline* timeline) : trace_(trace), timeline_(timeline) {}

  // The timeline is at `event`; `previous` was the stop reported before.
  void Add(const RunStop& event, const RunStop& previous);

  // All text since it was last taken. Others may append theirs.
  std::string Take();
  std::string* text() { return &text_; }

 private:
  void AddEnd(const RunStop& event, const RunStop& previous);
  void AddThinned();
  void AddFork(const RunStop& event);
  void AddSyscall(const RunStop& event);
  void AddUnknown(const UnknownMemory& unknown);

  const TraceReader* trace_;
  Timeline* timeline_;
  std::string text_;
  bool fork_explained_ = false;  // once a session is enough
  bool in_thinned_ = false;      // at the last stop
};

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_TARGET_STOP_NOTES_H_
