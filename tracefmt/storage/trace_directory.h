// A trace's directory, opened once: everything read of a recording is opened beneath it.
//
// A trace may be anybody's. So no name that it contains, and no link that lies in it, leads out of
// the recording's directory: files are opened relative to one descriptor, and symbolic links are
// refused. Only Open() follows a path, which is the user's.
//
// Cheap to copy; copies share the descriptor. Any number of threads may use it at once.

#ifndef HINDSIGHT_TRACEFMT_STORAGE_TRACE_DIRECTORY_H_
#define HINDSIGHT_TRACEFMT_STORAGE_TRACE_DIRECTORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace hindsight {

// Where the traces of a recording's processes lie: that of the first in the recording's own
// directory, the others in processes/NAME below it.
inline constexpr char kProcessesDirectory[] = "processes";

class TraceDirectory {
 public:
  // Of no trace: nothing is found in it.
  TraceDirectory() = default;
  // `path` names a recording, or the trace of one of its processes, RECORDING/processes/NAME.
  static absl::StatusOr<TraceDirectory> Open(const std::string& path);

  // For messages, and for users to name it by.
  const std::string& path() const { return path_; }
  std::string PathOf(const std::string& file) const { return path_ + "/" + file; }
  // The name in processes/; empty for the recording's first process.
  const std::string& name() const { return name_; }

  // The trace of the recording's first process, in the recording's own directory.
  TraceDirectory Recording() const;
  // The trace of process `name` of the same recording, whether there is one or not. kDataLoss if
  // that can be no name.
  absl::StatusOr<TraceDirectory> Process(const std::string& name) const;
  // The trace that `parent` means, a manifest's parent_directory: "../.." or "../NAME". kDataLoss
  // if it is neither.
  absl::StatusOr<TraceDirectory> Parent(const std::string& parent) const;
  // Names of the recording's processes in processes/, in no order.
  std::vector<std::string> ProcessNames() const;

  // Opens `file`, a path inside of this directory, for reading; never blocks on a named pipe.
  // Statuses are those of the error numbers.
  absl::StatusOr<UniqueFd> OpenFile(const std::string& file) const;
  // What lies in `directory` inside of this one, in no order; nothing if it cannot be read.
  std::vector<std::string> Entries(const std::string& directory) const;
  // Sizes of the regular files in `directory` and below, or of the file of that name.
  uint64_t BytesUnder(const std::string& directory) const;
  // How many files this process may have open, as of Open: confined, it cannot ask any more.
  size_t most_open() const { return most_open_; }
  // This directory, but what is opened in those of `directories` (names with a slash) stays open,
  // up to `most` files, as long as a copy of the result lives, and is what is found there under the
  // same name again, whether it has been removed meanwhile or not.
  TraceDirectory KeepingOpen(std::vector<std::string> directories, size_t most) const;
  // The recording's directory. -1: of no trace.
  int root_descriptor() const { return root_ == nullptr ? -1 : root_->get(); }

 private:
  class OpenFiles;

  std::string RelativePath(const std::string& file) const;

  std::shared_ptr<const UniqueFd> root_;  // the recording's directory
  std::shared_ptr<OpenFiles> kept_;       // null: none are
  size_t most_open_ = 0;
  std::string root_path_;
  std::string path_;
  std::string name_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_STORAGE_TRACE_DIRECTORY_H_
