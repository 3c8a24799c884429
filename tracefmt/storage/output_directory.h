// The directory a recording is written into, and the only way its writers make files.
//
// A recording holds all that the program knew, so nobody else may read it, and nobody else may say
// where it goes. Directories are made with mode 0700 and files with 0600; every name is looked up
// below a descriptor of the recording's directory, one part after the other, and no part may be a
// symbolic link; files are made with O_EXCL. Renaming or replacing a directory above the recording
// changes nothing once it has begun.
//
// Copyable: copies share the descriptor. Any number of threads may use it at once.

#ifndef HINDSIGHT_TRACEFMT_STORAGE_OUTPUT_DIRECTORY_H_
#define HINDSIGHT_TRACEFMT_STORAGE_OUTPUT_DIRECTORY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/unique_fd.h"
#include "tracefmt/storage/recent_files.h"

namespace hindsight {

class OutputDirectory {
 public:
  // Makes `path`, or takes one that is there, empty and ours. kAlreadyExists if it is not empty;
  // kPermissionDenied if it is somebody else's, or lies in a directory in which somebody else may
  // put another in its place.
  static absl::StatusOr<OutputDirectory> Create(const std::string& path);
  // One that is there already, whatever it holds.
  static absl::StatusOr<OutputDirectory> Open(const std::string& path);

  // For messages.
  const std::string& path() const { return path_; }
  std::string PathOf(absl::string_view name) const;

  // A directory below this one, which need not exist yet. Here and below names are relative and
  // may have several parts ("threads/1").
  OutputDirectory In(absl::string_view name) const;

  // kAlreadyExists if there is anything of that name.
  absl::Status MakeDirectory(absl::string_view name) const;
  // A new, empty file, for writing. kAlreadyExists as above.
  absl::StatusOr<UniqueFd> CreateFile(absl::string_view name) const;
  // A file that is there, for reading and writing.
  absl::StatusOr<UniqueFd> OpenFile(absl::string_view name) const;
  // The same, and it stays open until a few others have been asked for, or it is renamed or removed
  // here.
  absl::StatusOr<RecentFiles::File> OpenRecent(absl::string_view name) const;
  // In one step; replaces a file `to`.
  absl::Status Rename(absl::string_view from, absl::string_view to) const;
  // False if it is not there or cannot be removed.
  bool Remove(absl::string_view name) const;
  // Removes a file and says how many bytes it had.
  absl::StatusOr<uint64_t> Delete(absl::string_view name) const;
  // Removes an empty directory.
  absl::Status DeleteDirectory(absl::string_view name) const;

 private:
  struct Root {
    explicit Root(UniqueFd opened) : directory(std::move(opened)) {}
    const UniqueFd directory;
    RecentFiles recent;
  };
  // The last part of a name, and the directory it is in.
  struct Place {
    UniqueFd opened;  // invalid: it is root_
    int directory = -1;
    std::string name;
  };

  OutputDirectory(std::string path, UniqueFd root)
      : path_(std::move(path)), root_(std::make_shared<Root>(std::move(root))) {}
  std::string BelowRoot(absl::string_view name) const;
  absl::StatusOr<Place> Find(absl::string_view name) const;
  absl::StatusOr<UniqueFd> OpenAt(absl::string_view name, int flags) const;
  absl::StatusOr<UniqueFd> OpenOnceAt(absl::string_view name, int flags) const;

  std::string path_;
  std::shared_ptr<Root> root_;
  std::string below_;  // where below root_ this directory lies; empty: it is root_
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_STORAGE_OUTPUT_DIRECTORY_H_
