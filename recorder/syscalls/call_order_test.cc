#include "recorder/syscalls/call_order.h"

#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>

#include <array>
#include <cstring>
#include <initializer_list>

namespace hindsight {
namespace {

uint64_t Peek(uint64_t address, uint64_t bytes) {
  uint64_t word = 0;
  std::memcpy(&word, reinterpret_cast<const void*>(address), bytes);
  return word;
}

bool BeginsThere(uint64_t number, std::array<uint64_t, 6> arguments = {}) {
  return StandsWhereItBegan(number, arguments.data(), &Peek);
}

TEST(CallOrderTest, WhatOthersSeeStandsWhereItBegan) {
  for (const uint64_t number :
       {SYS_write,     SYS_writev,          SYS_sendmsg, SYS_sendmmsg, SYS_splice,
        SYS_close,     SYS_shutdown,        SYS_kill,    SYS_tgkill,   SYS_connect,
        SYS_unlink,    SYS_rename,          SYS_munmap,  SYS_msgsnd,   SYS_mq_timedsend,
        SYS_io_submit, SYS_timerfd_settime, SYS_clone,   SYS_vfork,    SYS_execve}) {
    EXPECT_TRUE(BeginsThere(number)) << number;
  }
}

TEST(CallOrderTest, WhatWaitsOrAsksStandsWhereItReturned) {
  for (const uint64_t number : {SYS_read, SYS_recvfrom, SYS_accept4, SYS_wait4, SYS_poll,
                                SYS_epoll_wait, SYS_stat, SYS_rt_sigtimedwait, SYS_getpid}) {
    EXPECT_FALSE(BeginsThere(number)) << number;
  }
}

TEST(CallOrderTest, WhatIsNotKnownStandsWhereItBegan) {
  EXPECT_TRUE(BeginsThere(500));
  EXPECT_TRUE(BeginsThere(uint64_t{1} << 31));
  // The kernel looks at the lower half.
  EXPECT_FALSE(BeginsThere(uint64_t{1} << 32 | SYS_read));
}

TEST(CallOrderTest, ArgumentsDecide) {
  EXPECT_TRUE(BeginsThere(SYS_futex, {0, FUTEX_WAKE | FUTEX_PRIVATE_FLAG}));
  EXPECT_TRUE(BeginsThere(SYS_futex, {0, FUTEX_WAKE_OP}));
  EXPECT_TRUE(BeginsThere(SYS_futex, {0, FUTEX_UNLOCK_PI}));
  EXPECT_TRUE(BeginsThere(SYS_futex, {0, FUTEX_CMP_REQUEUE}));
  EXPECT_FALSE(BeginsThere(SYS_futex, {0, FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME}));
  EXPECT_FALSE(BeginsThere(SYS_futex, {0, FUTEX_LOCK_PI}));
  EXPECT_TRUE(BeginsThere(SYS_openat, {0, 0, O_CREAT | O_EXCL}));
  EXPECT_FALSE(BeginsThere(SYS_openat, {0, 0, O_RDWR}));
  EXPECT_TRUE(BeginsThere(SYS_mmap, {0, 0, 0, MAP_FIXED | MAP_SHARED}));
  EXPECT_FALSE(BeginsThere(SYS_mmap, {0, 0, 0, MAP_SHARED}));
  EXPECT_TRUE(BeginsThere(SYS_flock, {0, 8}));
  EXPECT_FALSE(BeginsThere(SYS_flock, {0, 2}));
  EXPECT_TRUE(BeginsThere(SYS_fcntl, {0, F_SETPIPE_SZ}));
  EXPECT_FALSE(BeginsThere(SYS_fcntl, {0, F_GETPIPE_SZ}));
  EXPECT_TRUE(BeginsThere(SYS_ioctl, {0, TIOCSTI}));
  EXPECT_FALSE(BeginsThere(SYS_ioctl, {0, TIOCGWINSZ}));
  EXPECT_TRUE(BeginsThere(SYS_semctl, {0, 0, 16}));  // SETVAL
  EXPECT_FALSE(BeginsThere(SYS_semctl, {0, 0, 12}));
  EXPECT_TRUE(BeginsThere(SYS_shmctl, {0, IPC_RMID}));
  EXPECT_FALSE(BeginsThere(SYS_shmctl, {0, IPC_STAT}));
}

TEST(CallOrderTest, MemoryDecides) {
  struct flock lock = {.l_type = F_UNLCK};
  const auto at = [](const void* place) { return reinterpret_cast<uint64_t>(place); };
  EXPECT_TRUE(BeginsThere(SYS_fcntl, {0, F_SETLKW, at(&lock)}));
  lock.l_type = F_WRLCK;
  EXPECT_FALSE(BeginsThere(SYS_fcntl, {0, F_SETLKW, at(&lock)}));
  const uint64_t how = O_CREAT;
  EXPECT_TRUE(BeginsThere(SYS_openat2, {0, 0, at(&how)}));
  const uint16_t acquires[] = {0, 0xffff, 0}, releases[] = {0, 0xffff, 0, 1, 1, 0};
  EXPECT_FALSE(BeginsThere(SYS_semop, {0, at(acquires), 1}));
  EXPECT_TRUE(BeginsThere(SYS_semop, {0, at(releases), 2}));
}

TEST(CallOrderTest, WhatFailedHasChangedNothing) {
  for (const int error : {EAGAIN, ENOENT, EEXIST, EPIPE, ENOSYS}) {
    EXPECT_TRUE(ChangedNothing(-error)) << error;
  }
  for (const int64_t result : std::initializer_list<int64_t>{0, 1, -EINTR, -EINPROGRESS, -4096}) {
    EXPECT_FALSE(ChangedNothing(result)) << result;
  }
}

}  // namespace
}  // namespace hindsight
