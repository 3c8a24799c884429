#include "recorder/syscalls/output_trust.h"

#include <asm/ioctls.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
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

TEST(OutputTrustTest, CommonCallsOnlyStoreAsTold) {
  const uint64_t none[6] = {};
  for (const int64_t call : {SYS_read, SYS_write, SYS_openat, SYS_mmap, SYS_brk, SYS_getdents64}) {
    EXPECT_TRUE(StoresOnlyListedOutputs(call, none)) << call;
  }
  for (const int64_t call : {SYS_vfork, SYS_clone, SYS_process_vm_writev, SYS_setsockopt,
                             SYS_rt_sigreturn, SYS_ptrace, SYS_io_submit, SYS_vmsplice}) {
    EXPECT_FALSE(StoresOnlyListedOutputs(call, none)) << call;
  }
  const uint64_t get_terminal[6] = {1, TCGETS}, paste[6] = {1, TIOCLINUX};
  EXPECT_TRUE(StoresOnlyListedOutputs(SYS_ioctl, get_terminal));
  EXPECT_FALSE(StoresOnlyListedOutputs(SYS_ioctl, paste));
  const uint64_t truncates[6] = {0, O_TRUNC, O_TRUNC};
  EXPECT_FALSE(StoresOnlyListedOutputs(SYS_open, truncates));
  EXPECT_FALSE(StoresOnlyListedOutputs(SYS_openat, truncates));
  EXPECT_FALSE(StoresOnlyListedOutputs(SYS_ftruncate, none));
}

TEST(OutputTrustTest, TheFileIsTheOneActedUpon) {
  const uint64_t arguments[6] = {3, 4, 5, 6, 7, 8};
  EXPECT_EQ(FileOfCall(SYS_write, arguments), 3);
  EXPECT_EQ(FileOfCall(SYS_sendfile, arguments), 3);
  EXPECT_EQ(FileOfCall(SYS_splice, arguments), 5);
  EXPECT_EQ(FileOfCall(SYS_mmap, arguments), 7);
  EXPECT_EQ(FileOfCall(SYS_brk, arguments), std::nullopt);
  const uint64_t anonymous[6] = {0, 4096, 3, 0x22, 0xffffffff, 0};
  EXPECT_EQ(FileOfCall(SYS_mmap, anonymous), std::nullopt);
}

TEST(OutputTrustTest, SomeCallsLetOthersStoreLater) {
  const uint64_t ring[6] = {3, 283, 4}, option[6] = {3, SOL_SOCKET, SO_RCVBUF};
  EXPECT_TRUE(AllowsLaterStores(SYS_userfaultfd, ring));
  EXPECT_TRUE(AllowsLaterStores(SYS_setsockopt, ring));
  EXPECT_FALSE(AllowsLaterStores(SYS_setsockopt, option));
  EXPECT_FALSE(AllowsLaterStores(SYS_read, option));
}

}  // namespace
}  // namespace hindsight
