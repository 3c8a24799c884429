// Whether what an untrusted process writes to a file is what it said it would be.

#ifndef HINDSIGHT_CLI_STATES_FILE_CONTENTS_H_
#define HINDSIGHT_CLI_STATES_FILE_CONTENTS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "keyframes/inspect/core_output.h"

namespace hindsight {

// Copyable.
class FileContents {
 public:
  explicit FileContents(OutputKind kind) : kind_(kind) {}

  // Before each write. Then after the last one. kInvalidArgument: this is something else.
  absl::Status Check(uint64_t offset, absl::string_view bytes);
  absl::Status CheckWhole() const;

 private:
  // The first bytes decide what a file can be taken for.
  absl::Status CheckCore(uint64_t offset, absl::string_view bytes);
  // Every line begins with a word of edits, and has words and numbers only: no line of it is a
  // command anywhere.
  absl::Status CheckEdits(uint64_t offset, absl::string_view bytes);

  OutputKind kind_;
  bool has_header_ = false;
  uint64_t size_ = 0;  // of edits
  std::string line_;   // the beginning of the last line of edits
};

}  // namespace hindsight

#endif  // HINDSIGHT_CLI_STATES_FILE_CONTENTS_H_
