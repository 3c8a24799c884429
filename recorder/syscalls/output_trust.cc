#include "recorder/syscalls/output_trust.h"

#include <limits.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace hindsight {
namespace {

FileKind KindInProc(const std::string& path) {
  char target[PATH_MAX];
  const ssize_t length = readlink(path.c_str(), target, sizeof(target));
  if (length <= 0) return FileKind::kMemory;  // not known: assume the worse
  const absl::string_view name(target, length);
  return absl::StartsWith(name.substr(name.rfind('/') + 1), "mem") ? FileKind::kMemory
                                                                   : FileKind::kOther;
}

}  // namespace

FileKind KindOfFile(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) return FileKind::kOther;
  FileKind kind = FileKind::kOther;
  if (KindByStat(status, &kind)) return kind;
  struct statfs system;
  if (statfs(path.c_str(), &system) != 0) return FileKind::kOther;
  return system.f_type == PROC_SUPER_MAGIC ? KindInProc(path) : FileKind::kOrdinary;
}

}  // namespace hindsight
