#include "recorder/process/exec_privileges.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/unique_fd.h"

namespace hindsight {
namespace {

// How deep the kernel follows scripts whose interpreters are scripts.
constexpr int kMostInterpreters = 5;
// How much of a script's first line it reads.
constexpr size_t kFirstBytes = 256;

// Facts of /proc/PID/status.
struct Credentials {
  bool known = false;
  bool no_new_privileges = false;
  uint64_t effective_user = 0, effective_group = 0;
  uint64_t capabilities = 0;  // effective
};

Credentials CredentialsOf(const std::string& process) {
  Credentials credentials;
  std::FILE* file = std::fopen(absl::StrCat("/proc/", process, "/status").c_str(), "re");
  if (file == nullptr) return credentials;
  credentials.known = true;
  char line[256];
  while (std::fgets(line, sizeof(line), file) != nullptr) {
    unsigned long long real, value;
    if (std::sscanf(line, "Uid: %llu %llu", &real, &value) == 2) {
      credentials.effective_user = value;
    } else if (std::sscanf(line, "Gid: %llu %llu", &real, &value) == 2) {
      credentials.effective_group = value;
    } else if (std::sscanf(line, "NoNewPrivs: %llu", &value) == 1) {
      credentials.no_new_privileges = value != 0;
    } else if (std::sscanf(line, "CapEff: %llx", &value) == 1) {
      credentials.capabilities = value;
    }
  }
  std::fclose(file);
  return credentials;
}

// Opens, to look at, what the process sees under this name.
UniqueFd OpenAsSeenBy(pid_t process, int directory, const std::string& path, int flags) {
  const std::string proc = absl::StrCat("/proc/", process, "/");
  const int no_follow = (flags & AT_SYMLINK_NOFOLLOW) != 0 ? O_NOFOLLOW : 0;
  if (absl::StartsWith(path, "/")) {
    // In the process's root, which symbolic links do not leave.
    UniqueFd root(open((proc + "root").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    open_how how = {};
    how.flags = static_cast<uint64_t>(O_PATH | O_CLOEXEC | no_follow);
    how.resolve = RESOLVE_IN_ROOT;
    const long fd = syscall(SYS_openat2, root.get(), path.c_str(), &how, sizeof(how));
    return UniqueFd(static_cast<int>(fd));
  }
  const std::string base =
      directory == AT_FDCWD ? proc + "cwd" : absl::StrCat(proc, "fd/", directory);
  if (path.empty() && (flags & AT_EMPTY_PATH) != 0) {
    return UniqueFd(open(base.c_str(), O_PATH | O_CLOEXEC));
  }
  UniqueFd from(open(base.c_str(), O_PATH | O_CLOEXEC));
  return UniqueFd(openat(from.get(), path.c_str(), O_PATH | O_CLOEXEC | no_follow));
}

// The path after "#!" at the start of the file; empty if it is no script.
std::string InterpreterOf(const std::string& file) {
  UniqueFd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  char bytes[kFirstBytes];
  const ssize_t got = fd.valid() ? read(fd.get(), bytes, sizeof(bytes)) : 0;
  absl::string_view line(bytes, got > 0 ? got : 0);
  if (!absl::StartsWith(line, "#!")) return "";
  line = absl::StripLeadingAsciiWhitespace(line.substr(2, line.find('\n') - 2));
  return std::string(line.substr(0, line.find_first_of(" \t\n")));
}

}  // namespace

std::string PrivilegesOfExec(pid_t process, int directory, const std::string& path, int flags) {
  const Credentials credentials = CredentialsOf(absl::StrCat(process));
  if (!credentials.known || credentials.no_new_privileges) return "";
  UniqueFd fd = OpenAsSeenBy(process, directory, path, flags);
  std::string by, file;
  for (int i = 0; i < kMostInterpreters && fd.valid(); ++i) {
    file = absl::StrCat("/proc/self/fd/", fd.get());
    const std::string interpreter = InterpreterOf(file);
    if (interpreter.empty()) break;
    by = absl::StrCat("is run by ", interpreter, ", which ");
    fd = OpenAsSeenBy(process, AT_FDCWD, interpreter, 0);
  }
  struct stat st;
  struct statvfs mount;
  if (!fd.valid() || fstat(fd.get(), &st) != 0 || !S_ISREG(st.st_mode)) return "";
  if (fstatvfs(fd.get(), &mount) == 0 && (mount.f_flag & ST_NOSUID) != 0) return "";
  file = absl::StrCat("/proc/self/fd/", fd.get());
  if ((st.st_mode & S_ISUID) != 0 && st.st_uid != credentials.effective_user) {
    return absl::StrCat(by, "is set-user-ID ", st.st_uid);
  }
  // Without the group's execute permission the bit means something else (mandatory locking).
  const bool set_group = (st.st_mode & S_ISGID) != 0 && (st.st_mode & S_IXGRP) != 0;
  if (set_group && st.st_gid != credentials.effective_group) {
    return absl::StrCat(by, "is set-group-ID ", st.st_gid);
  }
  if (getxattr(file.c_str(), "security.capability", nullptr, 0) > 0) {
    return absl::StrCat(by, "is given capabilities");
  }
  return "";
}

bool MayTracePrivileged() {
  const Credentials own = CredentialsOf("thread-self");
  return (own.capabilities & (uint64_t{1} << CAP_SYS_PTRACE)) != 0;
}

std::string PrivilegesLostByExec(pid_t process, int directory, const std::string& path, int flags) {
  return MayTracePrivileged() ? "" : PrivilegesOfExec(process, directory, path, flags);
}

}  // namespace hindsight
