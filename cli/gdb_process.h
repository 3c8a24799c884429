// gdb as a child process that has the terminal, and the files it needs while it runs.

#ifndef HINDSIGHT_CLI_GDB_PROCESS_H_
#define HINDSIGHT_CLI_GDB_PROCESS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hindsight {

// A directory that only this user can look into, removed with what is in it by the destructor.
// Movable, not copyable.
class TemporaryDirectory {
 public:
  static absl::StatusOr<TemporaryDirectory> Create();
  TemporaryDirectory(TemporaryDirectory&& other) noexcept : path_(std::move(other.path_)) {
    other.path_.clear();
  }
  TemporaryDirectory& operator=(TemporaryDirectory&&) = delete;
  ~TemporaryDirectory();

  const std::string& path() const { return path_; }
  // The path of a new file `name` with these contents.
  absl::StatusOr<std::string> WriteFile(absl::string_view name, absl::string_view contents);

 private:
  explicit TemporaryDirectory(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Blocks the signals that RunChild waits for. Call before any thread is started.
void BlockChildSignals();

// Runs `arguments` (found like execvp does) and waits for its end; returns its exit status, 128
// plus the signal's number if it died of one. Meanwhile Ctrl-C and Ctrl-\ are the child's, and
// SIGTERM and SIGHUP are passed on to it. kNotFound: it cannot be executed.
absl::StatusOr<int> RunChild(const std::vector<std::string>& arguments);

}  // namespace hindsight

#endif  // HINDSIGHT_CLI_GDB_PROCESS_H_
