#include "recorder/syscalls/syscall_outputs.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/fsmap.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hindsight {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

// Its memory: what was stored in it, at addresses from kBase on.
class SyscallOutputsTest : public testing::Test {
 protected:
  static constexpr uint64_t kBase = 0x10000;

  template <typename T>
  void Put(uint64_t address, T value) {
    std::memcpy(memory_.data() + (address - kBase), &value, sizeof(value));
  }
  // `during`: what happens to its memory while the call is made.
  SyscallOutputs Outputs(
      int64_t number, std::array<uint64_t, 6> arguments, int64_t result,
      const std::function<void()>& during = [] {}) {
    const ReadMemory read = [this](uint64_t address, absl::Span<uint8_t> out) {
      if (address < kBase || address - kBase + out.size() > memory_.size()) return false;
      std::memcpy(out.data(), memory_.data() + (address - kBase), out.size());
      return true;
    };
    const ArgumentMemory before = ArgumentMemory::Take(number, arguments.data(), read);
    during();
    return OutputsOf(number, arguments.data(), result, before, read);
  }
  std::vector<MemoryRange> Written(int64_t number, std::array<uint64_t, 6> arguments,
                                   int64_t result) {
    const SyscallOutputs outputs = Outputs(number, arguments, result);
    EXPECT_TRUE(outputs.known) << number;
    return outputs.written;
  }
  // An iovec / a msghdr at `at`.
  void PutVector(uint64_t at, uint64_t base, uint64_t length) {
    Put(at, base);
    Put(at + 8, length);
  }
  void PutMessage(uint64_t at, uint64_t name, uint32_t name_length, uint64_t vectors,
                  uint64_t control, uint64_t control_length) {
    Put(at, name);
    Put(at + 8, name_length);
    Put(at + 16, vectors);
    Put(at + 24, uint64_t{1});
    Put(at + 32, control);
    Put(at + 40, control_length);
  }

  std::vector<uint8_t> memory_ = std::vector<uint8_t>(4096);
};

TEST_F(SyscallOutputsTest, ReadStoresAsMuchAsItReturns) {
  EXPECT_THAT(Written(SYS_read, {3, 0x5000, 100}, 8), ElementsAre(MemoryRange{0x5000, 8}));
  EXPECT_THAT(Written(SYS_read, {3, 0x5000, 100}, 0), IsEmpty());
  EXPECT_THAT(Written(SYS_getrandom, {0x5000, 16}, 16), ElementsAre(MemoryRange{0x5000, 16}));
}

TEST_F(SyscallOutputsTest, ResultLargerThanTheBufferIsNotBelieved) {
  // recvfrom with MSG_TRUNC returns the message's whole length.
  EXPECT_THAT(Written(SYS_recvfrom, {3, 0x5000, 16}, 4000), ElementsAre(MemoryRange{0x5000, 16}));
}

TEST_F(SyscallOutputsTest, FailedReadMayHaveStoredAllItWasAllowedTo) {
  const SyscallOutputs outputs = Outputs(SYS_read, {3, 0x5000, 100}, -EINTR);
  EXPECT_THAT(outputs.written, IsEmpty());
  EXPECT_THAT(outputs.perhaps_written, ElementsAre(MemoryRange{0x5000, 100}));
}

// What is left of a sleep; what waitid says of no child.
TEST_F(SyscallOutputsTest, StructsAreStoredByCallsThatFail) {
  EXPECT_THAT(Written(SYS_nanosleep, {0x4000, 0x5000}, -EINTR),
              ElementsAre(MemoryRange{0x5000, 16}));
  EXPECT_THAT(Written(SYS_waitid, {0, 0, 0x5000, 0, 0}, -ECHILD),
              ElementsAre(MemoryRange{0x5000, 128}));
}

// The message is stored before its sender's address cannot be.
TEST_F(SyscallOutputsTest, AFaultComesAfterPartWasStored) {
  SyscallOutputs outputs = Outputs(SYS_recvfrom, {3, 0x5000, 100, 0, 1, 0}, -EFAULT);
  EXPECT_TRUE(outputs.known);
  EXPECT_THAT(outputs.written, Contains(MemoryRange{0x5000, 100}));
  EXPECT_THAT(outputs.perhaps_written, IsEmpty());
  outputs = Outputs(SYS_read, {3, 0x5000, uint64_t{1} << 40}, -EFAULT);
  EXPECT_FALSE(outputs.known);
  EXPECT_THAT(outputs.written, IsEmpty());
}

TEST_F(SyscallOutputsTest, WhatABufferHasLeftFollows) {
  EXPECT_THAT(Outputs(SYS_read, {3, 0x5000, 100}, 8).unfilled,
              ElementsAre(MemoryRange{0x5008, 92}));
  EXPECT_THAT(Outputs(SYS_read, {3, 0x5000, 100}, 100).unfilled, IsEmpty());
  PutVector(kBase, 0x5000, 10);
  PutVector(kBase + 16, 0x6000, 10);
  EXPECT_THAT(Outputs(SYS_readv, {3, kBase, 2}, 7).unfilled,
              ElementsAre(MemoryRange{0x5007, 3}, MemoryRange{0x6000, 10}));
}

TEST_F(SyscallOutputsTest, FixedStructs) {
  EXPECT_THAT(Written(SYS_fstat, {3, 0x5000}, 0), ElementsAre(MemoryRange{0x5000, 144}));
  EXPECT_THAT(Written(SYS_wait4, {1, 0x5000, 0, 0x6000}, 7),
              ElementsAre(MemoryRange{0x5000, 4}, MemoryRange{0x6000, 144}));
  EXPECT_THAT(Written(SYS_wait4, {1, 0, 0, 0}, 7), IsEmpty());
}

TEST_F(SyscallOutputsTest, SizesByArgument) {
  EXPECT_THAT(Written(SYS_poll, {0x5000, 3, 0}, 1), ElementsAre(MemoryRange{0x5000, 24}));
  EXPECT_THAT(Written(SYS_epoll_wait, {3, 0x5000, 64, 0}, 2), ElementsAre(MemoryRange{0x5000, 24}));
  EXPECT_THAT(Written(SYS_mincore, {0x100000, 5 * 4096, 0x5000}, 0),
              ElementsAre(MemoryRange{0x5000, 6}));
  EXPECT_THAT(Written(SYS_select, {65, 0x5000, 0, 0, 0x6000}, 1),
              ElementsAre(MemoryRange{0x5000, 16}, MemoryRange{0x6000, 16}));
}

TEST_F(SyscallOutputsTest, LengthsInAndOut) {
  Put(kBase, uint32_t{16});
  EXPECT_THAT(Written(SYS_accept, {3, 0x5000, kBase}, 4),
              ElementsAre(MemoryRange{0x5000, 16}, MemoryRange{kBase, 4}));
  Put(kBase, uint32_t{4000});  // of an address that did not fit
  EXPECT_THAT(Written(SYS_getsockname, {3, 0x5000, kBase}, 0),
              ElementsAre(MemoryRange{0x5000, 128}, MemoryRange{kBase, 4}));
}

TEST_F(SyscallOutputsTest, VectorsAreFilledInTurn) {
  PutVector(kBase, 0x5000, 10);
  PutVector(kBase + 16, 0x6000, 10);
  PutVector(kBase + 32, 0x7000, 10);
  EXPECT_THAT(Written(SYS_readv, {3, kBase, 3}, 15),
              ElementsAre(MemoryRange{0x5000, 10}, MemoryRange{0x6000, 5}));
  EXPECT_THAT(
      Written(SYS_process_vm_readv, {1, kBase, 3, 0, 0}, 25),
      ElementsAre(MemoryRange{0x5000, 10}, MemoryRange{0x6000, 10}, MemoryRange{0x7000, 5}));
}

TEST_F(SyscallOutputsTest, MessagesHaveNameDataAndControl) {
  PutVector(kBase + 100, 0x6000, 1000);
  PutMessage(kBase, 0x5000, 16, kBase + 100, 0x7000, 24);
  EXPECT_THAT(Written(SYS_recvmsg, {3, kBase}, 12),
              ElementsAre(MemoryRange{kBase, 56}, MemoryRange{0x5000, 16}, MemoryRange{0x6000, 12},
                          MemoryRange{0x7000, 24}));
}

TEST_F(SyscallOutputsTest, ManyMessagesHaveTheirOwnLengths) {
  PutVector(kBase + 200, 0x6000, 1000);
  PutVector(kBase + 300, 0x8000, 1000);
  PutMessage(kBase, 0, 0, kBase + 200, 0, 0);
  PutMessage(kBase + 64, 0, 0, kBase + 300, 0, 0);
  Put(kBase + 56, uint32_t{7});
  Put(kBase + 64 + 56, uint32_t{9});
  const std::vector<MemoryRange> one = Written(SYS_recvmmsg, {3, kBase, 2, 0, 0}, 1);
  EXPECT_THAT(one, Contains(MemoryRange{0x6000, 7}));
  EXPECT_THAT(one, Not(Contains(MemoryRange{0x8000, 9})));
  EXPECT_THAT(Written(SYS_recvmmsg, {3, kBase, 2, 0, 0}, 2), Contains(MemoryRange{0x8000, 9}));
}

// A call that stores over its own arguments has read them before.
TEST_F(SyscallOutputsTest, ArgumentsAreThoseFromBeforeTheCall) {
  const auto clear = [this] { std::fill(memory_.begin(), memory_.end(), uint8_t{0}); };
  const auto written = [&](int64_t number, std::array<uint64_t, 6> arguments, int64_t result) {
    const SyscallOutputs outputs = Outputs(number, arguments, result, clear);
    EXPECT_TRUE(outputs.known) << number;
    return outputs.written;
  };
  PutVector(kBase, 0x5000, 10);
  EXPECT_THAT(written(SYS_readv, {3, kBase, 1}, 10), ElementsAre(MemoryRange{0x5000, 10}));
  PutVector(kBase, 0x5000, 10);
  EXPECT_THAT(written(SYS_process_vm_readv, {1, kBase, 1, 0, 0}, 10),
              ElementsAre(MemoryRange{0x5000, 10}));
  PutVector(kBase + 100, 0x6000, 1000);
  PutMessage(kBase, 0x5000, 16, kBase + 100, 0x7000, 24);
  EXPECT_THAT(written(SYS_recvmsg, {3, kBase}, 12),
              ElementsAre(MemoryRange{kBase, 56}, MemoryRange{0x5000, 16}, MemoryRange{0x6000, 12},
                          MemoryRange{0x7000, 24}));
  Put(kBase, uint32_t{16});
  EXPECT_THAT(written(SYS_accept, {3, 0x5000, kBase}, 4),
              ElementsAre(MemoryRange{0x5000, 16}, MemoryRange{kBase, 4}));
  Put(kBase + 8, uint32_t{16});
  EXPECT_THAT(written(SYS_getsockopt, {3, 1, 2, kBase, kBase + 8}, 0),
              ElementsAre(MemoryRange{kBase, 16}, MemoryRange{kBase + 8, 4}));
  Put(kBase, uint32_t{80});
  Put(kBase + 8, uint64_t{0x5000});
  EXPECT_THAT(written(SYS_ioctl, {3, 0x8912, kBase}, 0),
              ElementsAre(MemoryRange{kBase, 16}, MemoryRange{0x5000, 80}));
  Put(kBase, uint64_t{CLONE_VM | CLONE_THREAD | CLONE_PARENT_SETTID});
  Put(kBase + 24, uint64_t{0x5000});
  EXPECT_THAT(written(SYS_clone3, {kBase, 88}, 7), ElementsAre(MemoryRange{0x5000, 4}));
}

// The kernel reads each header when the message before it has been stored.
TEST_F(SyscallOutputsTest, MessagesOverLaterHeadersMayGoAnywhere) {
  PutVector(kBase + 200, 0x6000, 1000);
  PutVector(kBase + 300, kBase + 64, 16);
  PutMessage(kBase, 0, 0, kBase + 200, 0, 0);
  PutMessage(kBase + 64, 0, 0, kBase + 300, 0, 0);
  Put(kBase + 56, uint32_t{7});
  Put(kBase + 64 + 56, uint32_t{7});
  EXPECT_TRUE(Outputs(SYS_recvmmsg, {3, kBase, 1, 0, 0}, 1).known);
  EXPECT_FALSE(Outputs(SYS_recvmmsg, {3, kBase, 2, 0, 0}, 2).known);
  // Or another thread has changed where it goes.
  EXPECT_FALSE(Outputs(SYS_recvmmsg, {3, kBase, 1, 0, 0}, 1, [this] {
                 PutVector(kBase + 200, 0x9000, 1000);
               }).known);
}

TEST_F(SyscallOutputsTest, TheMessageThatFailedIsNotCounted) {
  PutVector(kBase + 200, 0x6000, 1000);
  PutVector(kBase + 300, 0x8000, 1000);
  PutMessage(kBase, 0, 0, kBase + 200, 0, 0);
  PutMessage(kBase + 64, 0, 0, kBase + 300, 0, 0);
  Put(kBase + 56, uint32_t{1000});
  EXPECT_THAT(Outputs(SYS_recvmmsg, {3, kBase, 2, 0, 0}, 1).unfilled,
              ElementsAre(MemoryRange{0x8000, 1000}));
}

TEST_F(SyscallOutputsTest, OptionsThatStoreMoreThanTheirLength) {
  Put(kBase, uint32_t{4});
  EXPECT_TRUE(Outputs(SYS_getsockopt, {3, SOL_SOCKET, SO_TYPE, 0x5000, kBase}, 0).known);
  EXPECT_FALSE(Outputs(SYS_getsockopt, {3, SOL_SOCKET, SO_GET_FILTER, 0x5000, kBase}, 0).known);
  EXPECT_FALSE(Outputs(SYS_getsockopt, {3, SOL_TCP, TCP_ZEROCOPY_RECEIVE, 0x5000, kBase}, 0).known);
}

TEST_F(SyscallOutputsTest, IoctlsOfKnownKinds) {
  EXPECT_THAT(Written(SYS_ioctl, {1, TCGETS, 0x5000}, 0), ElementsAre(MemoryRange{0x5000, 36}));
  EXPECT_THAT(Written(SYS_ioctl, {1, TIOCGWINSZ, 0x5000}, 0), ElementsAre(MemoryRange{0x5000, 8}));
  EXPECT_THAT(Written(SYS_ioctl, {1, TIOCGPTN, 0x5000}, 0), ElementsAre(MemoryRange{0x5000, 4}));
  EXPECT_THAT(Written(SYS_ioctl, {1, FIOCLEX, 0x5000}, 0), IsEmpty());
  EXPECT_FALSE(Outputs(SYS_ioctl, {1, _IOWR('d', 1, uint64_t), 0x5000}, 0).known);
  EXPECT_FALSE(Outputs(SYS_ioctl, {1, FS_IOC_GETFSMAP, 0x5000}, 0).known);
  EXPECT_FALSE(Outputs(SYS_ioctl, {1, FS_IOC_GET_ENCRYPTION_POLICY_EX, 0x5000}, 0).known);
  EXPECT_THAT(Written(SYS_ioctl, {1, FS_IOC_FSGETXATTR, 0x5000}, 0),
              ElementsAre(MemoryRange{0x5000, 28}));
}

TEST_F(SyscallOutputsTest, InterfaceListLiesBehindAPointer) {
  Put(kBase, uint32_t{80});
  Put(kBase + 8, uint64_t{0x5000});
  EXPECT_THAT(Written(SYS_ioctl, {3, 0x8912, kBase}, 0),
              ElementsAre(MemoryRange{kBase, 16}, MemoryRange{0x5000, 80}));
}

TEST_F(SyscallOutputsTest, DependsOnTheOperation) {
  EXPECT_THAT(Written(SYS_fcntl, {3, F_GETLK, 0x5000}, 0), ElementsAre(MemoryRange{0x5000, 32}));
  EXPECT_THAT(Written(SYS_fcntl, {3, F_SETFD, 0x5000}, 0), IsEmpty());
  EXPECT_THAT(Written(SYS_futex, {0x5000, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0}, 0), IsEmpty());
  EXPECT_THAT(Written(SYS_futex, {0x5000, FUTEX_LOCK_PI, 0}, 0),
              ElementsAre(MemoryRange{0x5000, 4}));
}

TEST_F(SyscallOutputsTest, NewTasks) {
  const uint64_t thread = CLONE_VM | CLONE_THREAD | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
  EXPECT_THAT(Written(SYS_clone, {thread, 0, 0x5000, 0x6000}, 7),
              ElementsAre(MemoryRange{0x5000, 4}));
  EXPECT_FALSE(Outputs(SYS_vfork, {}, 7).known);
  const SyscallOutputs shares = Outputs(SYS_clone, {CLONE_VM}, 7);
  EXPECT_TRUE(!shares.known && shares.shares_memory);
  EXPECT_FALSE(Outputs(SYS_clone, {CLONE_VM | CLONE_VFORK}, 7).shares_memory);
  EXPECT_TRUE(Outputs(SYS_fork, {}, 7).known);
}

TEST_F(SyscallOutputsTest, MemoryThatMeansSomethingElse) {
  EXPECT_THAT(Outputs(SYS_mmap, {0, 0x3000}, 0x7f0000).remapped,
              ElementsAre(MemoryRange{0x7f0000, 0x3000}));
  EXPECT_THAT(Outputs(SYS_madvise, {0x7f0000, 0x1000, MADV_DONTNEED}, 0).remapped,
              ElementsAre(MemoryRange{0x7f0000, 0x1000}));
  EXPECT_THAT(Outputs(SYS_madvise, {0x7f0000, 0x1000, MADV_FREE}, 0).discarded,
              ElementsAre(MemoryRange{0x7f0000, 0x1000}));
  EXPECT_THAT(Outputs(SYS_madvise, {0x7f0000, 0x1000, MADV_WILLNEED}, 0).remapped, IsEmpty());
}

TEST_F(SyscallOutputsTest, FilesMayChange) {
  EXPECT_TRUE(Outputs(SYS_write, {1, 0x5000, 8}, 8).writes_files);
  EXPECT_TRUE(Outputs(SYS_openat, {0, 0x5000, O_TRUNC | O_WRONLY}, 3).writes_files);
  EXPECT_FALSE(Outputs(SYS_openat, {0, 0x5000, O_RDONLY}, 3).writes_files);
}

TEST_F(SyscallOutputsTest, UnknownCallsMayHaveWrittenAnywhere) {
  EXPECT_FALSE(Outputs(SYS_bpf, {}, 0).known);
  EXPECT_FALSE(Outputs(9999, {}, 0).known);
}

TEST_F(SyscallOutputsTest, SignalFrameEndsWithTheVectorState) {
  constexpr uint64_t kContext = kBase + 8;
  constexpr uint64_t kVectors = kBase + 0x400;
  Put(kContext + 40 + 23 * 8, kVectors);
  Put(kVectors + 468, uint32_t{2440});
  const ReadMemory read = [this](uint64_t address, absl::Span<uint8_t> out) {
    std::memcpy(out.data(), memory_.data() + (address - kBase), out.size());
    return true;
  };
  EXPECT_EQ(SignalFrame(kBase, kContext, read), (MemoryRange{kBase, 0x400 + 2440}));
}

}  // namespace
}  // namespace hindsight
