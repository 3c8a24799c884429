#include "base/syscall_names.h"

#include <sys/syscall.h>

#include "gtest/gtest.h"

namespace hindsight {
namespace {

TEST(SyscallNameTest, NamesAreTheKernels) {
  EXPECT_STREQ(SyscallName(SYS_read), "read");
  EXPECT_STREQ(SyscallName(SYS_exit_group), "exit_group");
  EXPECT_STREQ(SyscallName(SYS_rseq), "rseq");
  EXPECT_STREQ(SyscallName(SYS_pidfd_send_signal), "pidfd_send_signal");
  EXPECT_STREQ(SyscallName(SYS_clone3), "clone3");
}

TEST(SyscallNameTest, UnknownNumbersHaveNone) {
  for (int64_t number : {int64_t{-1}, int64_t{400}, int64_t{1} << 40}) {
    EXPECT_EQ(SyscallName(number), nullptr) << number;
  }
}

}  // namespace
}  // namespace hindsight
