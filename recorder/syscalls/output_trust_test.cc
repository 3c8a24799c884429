#include "recorder/syscalls/output_trust.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/unique_fd.h"
#include "gtest/gtest.h"

namespace hindsight {
namespace {

FileKind KindOf(const UniqueFd& fd) {
  EXPECT_TRUE(fd.valid());
  return KindOfFile(absl::StrCat("/proc/self/fd/", fd.get()));
}

FileKind KindOf(const std::string& path, int flags = O_RDONLY) {
  return KindOf(UniqueFd(open(path.c_str(), flags | O_CLOEXEC)));
}

TEST(OutputTrustTest, FilesPipesAndSocketsAreOrdinary) {
  EXPECT_EQ(KindOf("/proc/self/exe"), FileKind::kOrdinary);
  EXPECT_EQ(KindOf("/"), FileKind::kOrdinary);
  EXPECT_EQ(KindOf("/dev/null"), FileKind::kOrdinary);
  EXPECT_EQ(KindOf("/dev/urandom"), FileKind::kOrdinary);
  EXPECT_EQ(KindOf("/dev/ptmx", O_RDWR | O_NOCTTY), FileKind::kOrdinary);
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  EXPECT_EQ(KindOf(UniqueFd(ends[0])), FileKind::kOrdinary);
  EXPECT_EQ(KindOf(UniqueFd(ends[1])), FileKind::kOrdinary);
  EXPECT_EQ(KindOf(UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0))), FileKind::kOrdinary);
  EXPECT_EQ(KindOf(UniqueFd(memfd_create("empty", MFD_CLOEXEC))), FileKind::kOrdinary);
}

TEST(OutputTrustTest, MemoryOfProcessesIsKnown) {
  EXPECT_EQ(KindOf("/proc/self/mem", O_RDWR), FileKind::kMemory);
  EXPECT_EQ(KindOf("/proc/thread-self/mem", O_RDWR), FileKind::kMemory);
  EXPECT_EQ(KindOf(absl::StrCat("/proc/", getppid(), "/../", getpid(), "/mem")), FileKind::kMemory);
}

TEST(OutputTrustTest, OtherFilesMayDoAnything) {
  EXPECT_EQ(KindOf("/proc/self/maps"), FileKind::kOther);
  EXPECT_EQ(KindOf(UniqueFd(eventfd(0, EFD_CLOEXEC))), FileKind::kOther);
  EXPECT_EQ(KindOfFile("/proc/self/fd/1000000"), FileKind::kOther);  // none
}

}  // namespace
}  // namespace hindsight
