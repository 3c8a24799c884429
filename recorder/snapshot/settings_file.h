// The subset of TOML in which a capture's settings are written: lines `name = value`, where a value
// is a number, a true or false, a string in double quotes (with \" \\ \n \t) or single quotes
// (as it stands), or a list of these in brackets, over several lines if need be. # begins a
// comment.

#ifndef HINDSIGHT_RECORDER_SNAPSHOT_SETTINGS_FILE_H_
#define HINDSIGHT_RECORDER_SNAPSHOT_SETTINGS_FILE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace hindsight {

struct FileSetting {
  int line = 0;  // from 1, of the name
  std::string name;
  std::vector<std::string> values;  // one, or those of a list
};

struct FileError {
  int line = 0;  // 0: there is none
  std::string message;
};

// The settings up to the end, or up to the first error, which is stored in `error`.
std::vector<FileSetting> ParseSettingsFile(absl::string_view text, FileError* error);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SNAPSHOT_SETTINGS_FILE_H_
