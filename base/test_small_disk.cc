#include "base/test_small_disk.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

namespace hindsight {
namespace {

constexpr int kCannotMountStatus = 77;

// For this process only.
bool Mount(const std::string& directory, const std::string& size) {
  const uid_t uid = getuid();
  if (unshare(CLONE_NEWNS) != 0) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    std::ofstream("/proc/self/uid_map") << "0 " << uid << " 1\n";
  }
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
  return mount("tmpfs", directory.c_str(), "tmpfs", 0, ("size=" + size).c_str()) == 0;
}

}  // namespace

SmallDiskRun RunOnSmallDisk(const std::string& size,
                            const std::function<bool(const std::string& directory)>& body) {
  const char* const parent = getenv("TEST_TMPDIR");
  std::string directory = std::string(parent == nullptr ? "/tmp" : parent) + "/full.XXXXXX";
  if (mkdtemp(directory.data()) == nullptr) return SmallDiskRun::kFailed;
  const pid_t child = fork();
  if (child == 0) {
    if (!Mount(directory, size)) _exit(kCannotMountStatus);
    const bool passed = body(directory);
    std::fflush(nullptr);
    _exit(passed ? 0 : 1);
  }
  int status = -1;
  const bool waited = waitpid(child, &status, 0) == child;
  rmdir(directory.c_str());
  if (waited && WIFEXITED(status) && WEXITSTATUS(status) == kCannotMountStatus) {
    return SmallDiskRun::kCannotMount;
  }
  return waited && status == 0 ? SmallDiskRun::kPassed : SmallDiskRun::kFailed;
}

}  // namespace hindsight
