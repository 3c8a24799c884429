// Where core files go, and other files that a debugger's user asks for.
//
// The process that writes them has read a trace and is confined, so whoever makes the files may
// be another process.

#ifndef HINDSIGHT_KEYFRAMES_INSPECT_CORE_OUTPUT_H_
#define HINDSIGHT_KEYFRAMES_INSPECT_CORE_OUTPUT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace hindsight {

// A file that is being written. What is not written of it is zeros. Unless Finish succeeds there is
// no file.
class CoreOutput {
 public:
  virtual ~CoreOutput() = default;
  virtual absl::Status WriteAt(uint64_t offset, absl::Span<const uint8_t> bytes) = 0;
  // Call once, at the end. Errors of earlier writes may be reported here only.
  virtual absl::Status Finish() = 0;
};

// What a file may be. Nothing else is made.
enum class OutputKind : uint8_t {
  kCore,   // an ELF core
  kEdits,  // the text of state_edits.h, written from its beginning to its end
};

class CoreFiles {
 public:
  virtual ~CoreFiles() = default;
  // A new file. kAlreadyExists: there is one of that name, whatever it is. kPermissionDenied: such
  // files are not made. Messages are for the user.
  virtual absl::StatusOr<std::unique_ptr<CoreOutput>> Create(const std::string& path,
                                                             OutputKind kind) = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_INSPECT_CORE_OUTPUT_H_
