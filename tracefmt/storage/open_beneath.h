// Opening what lies in a directory of a trace, which may hold anything.

#ifndef HINDSIGHT_TRACEFMT_STORAGE_OPEN_BENEATH_H_
#define HINDSIGHT_TRACEFMT_STORAGE_OPEN_BENEATH_H_

#include <sys/types.h>

#include <string>

#include "absl/strings/string_view.h"
#include "base/unique_fd.h"

namespace hindsight {

// Whether it names something in a directory, and leads nowhere else.
bool IsOneName(absl::string_view name);

// As openat(2). `path` is relative to `root` and stays beneath it, whatever lies there: no part of
// it may be a link. Invalid: errno says why.
UniqueFd OpenBeneath(int root, const std::string& path, int flags, mode_t mode = 0);

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_STORAGE_OPEN_BENEATH_H_
