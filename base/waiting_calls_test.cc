#include "base/waiting_calls.h"

#include <linux/futex.h>
#include <sys/syscall.h>

#include <vector>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

using Arguments = std::vector<uint64_t>;

TEST(WaitingCallsTest, AFutexIsStoredToByFewOperations) {
  for (const uint64_t waits : {FUTEX_WAIT, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, FUTEX_WAKE}) {
    EXPECT_TRUE(StoresNothing(SYS_futex, Arguments{0x1000, waits, 1})) << waits;
  }
  for (const uint64_t stores :
       {FUTEX_LOCK_PI, FUTEX_UNLOCK_PI | FUTEX_PRIVATE_FLAG, FUTEX_WAKE_OP, FUTEX_CMP_REQUEUE_PI}) {
    EXPECT_FALSE(StoresNothing(SYS_futex, Arguments{0x1000, stores, 1})) << stores;
  }
}

TEST(WaitingCallsTest, TheRestOfATimeIsStoredIfItIsAskedFor) {
  EXPECT_TRUE(StoresNothing(SYS_nanosleep, Arguments{0x1000, 0}));
  EXPECT_FALSE(StoresNothing(SYS_nanosleep, Arguments{0x1000, 0x2000}));
  EXPECT_TRUE(StoresNothing(SYS_clock_nanosleep, Arguments{0, 0, 0x1000, 0}));
  EXPECT_FALSE(StoresNothing(SYS_clock_nanosleep, Arguments{0, 0, 0x1000, 0x2000}));
}

TEST(WaitingCallsTest, CallsThatOnlyReadMemoryStoreNothing) {
  EXPECT_TRUE(StoresNothing(SYS_write, Arguments{1, 0x1000, 10}));
  EXPECT_FALSE(StoresNothing(SYS_read, Arguments{0, 0x1000, 10}));
  EXPECT_FALSE(StoresNothing(SYS_ioctl, Arguments{0, 0, 0}));
}

// The word of CLONE_CHILD_CLEARTID, and mutexes that are robust.
TEST(WaitingCallsTest, TheEndOfAThreadStores) {
  EXPECT_FALSE(StoresNothing(SYS_exit, Arguments{0}));
  EXPECT_FALSE(StoresNothing(SYS_execve, Arguments{0, 0, 0}));
}

TEST(WaitingCallsTest, WithoutArgumentsNothingIsKnown) {
  EXPECT_FALSE(StoresNothing(SYS_futex, {}));
  EXPECT_FALSE(StoresNothing(SYS_nanosleep, {}));
  EXPECT_FALSE(StoresNothing(9999, {}));
}

}  // namespace
}  // namespace hindsight
