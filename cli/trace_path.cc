#include "cli/trace_path.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <tuple>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace hindsight {
namespace {

constexpr char kSuffix[] = ".hindsight";

// In nanoseconds. The manifest is written when recording begins and again when it ends. -1 if there
// is none.
int64_t ManifestTime(const std::filesystem::path& trace) {
  struct stat info;
  if (stat((trace / "manifest").c_str(), &info) != 0) return -1;
  return info.st_mtim.tv_sec * int64_t{1'000'000'000} + info.st_mtim.tv_nsec;
}

}  // namespace

std::string NewTracePath(const std::string& directory, const std::string& program) {
  std::string name = std::filesystem::path(program).filename().string();
  if (name.empty()) name = "trace";
  for (int n = 0;; ++n) {
    std::filesystem::path path =
        std::filesystem::path(directory) / absl::StrCat(name, "-", n, kSuffix);
    std::error_code error;
    // symlink_status: a dangling link occupies the name too.
    if (!std::filesystem::exists(std::filesystem::symlink_status(path, error))) {
      return path.lexically_normal().string();
    }
  }
}

absl::StatusOr<std::string> NewestTrace(const std::string& directory) {
  // The name breaks ties, so that the answer does not depend on the directory's order.
  std::tuple<int64_t, std::string> newest = {-1, ""};
  std::error_code error;
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() != kSuffix) continue;
    newest = std::max(newest, {ManifestTime(entry->path()), entry->path().string()});
  }
  if (error) return absl::NotFoundError(absl::StrCat(directory, ": ", error.message()));
  if (std::get<0>(newest) < 0) {
    return absl::NotFoundError(
        absl::StrCat("no trace (*", kSuffix, ") in ",
                     std::filesystem::weakly_canonical(directory, error).string()));
  }
  return std::filesystem::path(std::get<1>(newest)).lexically_normal().string();
}

}  // namespace hindsight
