// Makes core files, and files of edits, for a process that is confined and cannot: a separate
// process, started before, which creates the files and writes what it is sent.
//
// What is confined may have been taken over by a hostile trace. So the maker only makes new files
// for this user alone, that begin as an ELF core does or have nothing but lines of edits, and,
// unless names are trusted, no hidden ones (".bashrc"), and in hidden directories (".ssh") only
// those named "core", "core.NAME", "NAME.core" or "NAME.edits".

#ifndef HINDSIGHT_CLI_STATES_CORE_FILE_MAKER_H_
#define HINDSIGHT_CLI_STATES_CORE_FILE_MAKER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "keyframes/inspect/core_output.h"

namespace hindsight {

// One file at a time: the output that Create returned must be gone before the next call. Movable,
// not copyable.
class CoreFileMaker final : public CoreFiles {
 public:
  enum class Names { kTrusted, kUntrusted };
  // Relative paths are those of this process's working directory now. Requires: no other thread
  // runs.
  static absl::StatusOr<CoreFileMaker> Start(Names names);

  // Whether the client that is served now may have files made. At first it may.
  void set_allowed(bool allowed) { allowed_ = allowed; }

  absl::StatusOr<std::unique_ptr<CoreOutput>> Create(const std::string& path,
                                                     OutputKind kind = OutputKind::kCore) override;

 private:
  explicit CoreFileMaker(UniqueFd line) : line_(std::move(line)) {}

  UniqueFd line_;  // to the maker; its end is this process's end
  bool allowed_ = true;
};

}  // namespace hindsight

#endif  // HINDSIGHT_CLI_STATES_CORE_FILE_MAKER_H_
