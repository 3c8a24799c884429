// What a process that was made again does not have of the one that the snapshot is of.

#ifndef HINDSIGHT_RECORDER_RESTORE_RESTORE_NOTES_H_
#define HINDSIGHT_RECORDER_RESTORE_RESTORE_NOTES_H_

#include <string>
#include <vector>

namespace hindsight {

// A line each.
struct RestoreNotes {
  std::vector<std::string> different;  // what the program can well live with
  std::vector<std::string> lost;       // what it may miss
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_RESTORE_RESTORE_NOTES_H_
