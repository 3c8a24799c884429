#include "recorder/syscalls/trusted_calls.h"

#include <asm/ioctls.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

TEST(TrustedCallsTest, CommonCallsOnlyStoreAsTold) {
  const uint64_t none[6] = {};
  for (const int64_t call : {SYS_read, SYS_write, SYS_openat, SYS_mmap, SYS_brk, SYS_getdents64,
                             SYS_recvmsg, SYS_readv, SYS_accept4, SYS_epoll_pwait}) {
    EXPECT_TRUE(StoresOnlyListedOutputs(call, none)) << call;
  }
  for (const int64_t call : {SYS_vfork, SYS_clone, SYS_process_vm_writev, SYS_futex_waitv,
                             SYS_rt_sigreturn, SYS_ptrace, SYS_io_submit, SYS_vmsplice}) {
    EXPECT_FALSE(StoresOnlyListedOutputs(call, none)) << call;
  }
  const uint64_t get_terminal[6] = {1, TCGETS}, paste[6] = {1, TIOCLINUX};
  EXPECT_TRUE(StoresOnlyListedOutputs(SYS_ioctl, get_terminal));
  EXPECT_FALSE(StoresOnlyListedOutputs(SYS_ioctl, paste));
  const uint64_t of_socket[6] = {3, SOL_SOCKET, SO_ERROR}, of_tcp[6] = {3, IPPROTO_TCP, 35};
  EXPECT_TRUE(StoresOnlyListedOutputs(SYS_getsockopt, of_socket));
  EXPECT_FALSE(StoresOnlyListedOutputs(SYS_getsockopt, of_tcp));
  const uint64_t truncates[6] = {0, O_TRUNC, O_TRUNC};
  EXPECT_FALSE(StoresOnlyListedOutputs(SYS_open, truncates));
  EXPECT_FALSE(StoresOnlyListedOutputs(SYS_openat, truncates));
  EXPECT_FALSE(StoresOnlyListedOutputs(SYS_ftruncate, none));
}

TEST(TrustedCallsTest, TheFileIsTheOneActedUpon) {
  const uint64_t arguments[6] = {3, 4, 5, 6, 7, 8};
  EXPECT_EQ(FileOfCall(SYS_write, arguments), 3);
  EXPECT_EQ(FileOfCall(SYS_sendfile, arguments), 3);
  EXPECT_EQ(FileOfCall(SYS_splice, arguments), 5);
  EXPECT_EQ(FileOfCall(SYS_mmap, arguments), 7);
  EXPECT_LT(FileOfCall(SYS_brk, arguments), 0);
  const uint64_t anonymous[6] = {0, 4096, 3, 0x22, 0xffffffff, 0};
  EXPECT_LT(FileOfCall(SYS_mmap, anonymous), 0);
}

TEST(TrustedCallsTest, SomeCallsLetOthersStoreLater) {
  const uint64_t ring[6] = {3, 283, 4}, option[6] = {3, SOL_SOCKET, SO_RCVBUF};
  EXPECT_TRUE(AllowsLaterStores(SYS_userfaultfd, ring));
  EXPECT_TRUE(AllowsLaterStores(SYS_setsockopt, ring));
  EXPECT_FALSE(AllowsLaterStores(SYS_setsockopt, option));
  EXPECT_FALSE(AllowsLaterStores(SYS_read, option));
}

TEST(TrustedCallsTest, TerminalsAndDevicesLikeNullHaveNoDriverOfTheirOwn) {
  EXPECT_TRUE(IsOrdinaryDevice(1, 3));
  EXPECT_FALSE(IsOrdinaryDevice(1, 1));  // /dev/mem
  EXPECT_TRUE(IsOrdinaryDevice(5, 0));
  EXPECT_TRUE(IsOrdinaryDevice(136, 7));
  EXPECT_FALSE(IsOrdinaryDevice(10, 232));  // /dev/kvm
}

TEST(TrustedCallsTest, OfAnEmptyFileTheFileSystemDecides) {
  struct stat file = {};
  FileKind kind = FileKind::kOther;
  file.st_mode = S_IFREG;
  EXPECT_FALSE(KindByStat(file, &kind));
  EXPECT_EQ(kind, FileKind::kOrdinary);
  file.st_size = 1;
  EXPECT_TRUE(KindByStat(file, &kind));
  file.st_mode = S_IFCHR;
  file.st_rdev = makedev(10, 232);
  EXPECT_TRUE(KindByStat(file, &kind));
  EXPECT_EQ(kind, FileKind::kDevice);
  file.st_rdev = makedev(136, 300);
  EXPECT_TRUE(KindByStat(file, &kind));
  EXPECT_EQ(kind, FileKind::kOrdinary);
}

TEST(TrustedCallsTest, SomeCallsMakeTheKernelStoreLater) {
  EXPECT_TRUE(StartsAsynchronousWrites(SYS_io_setup));
  EXPECT_TRUE(StartsAsynchronousWrites(SYS_io_uring_setup));
  EXPECT_FALSE(StartsAsynchronousWrites(SYS_read));
}

}  // namespace
}  // namespace hindsight
