#include "base/syscall_text.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace hindsight {
namespace {

// The process's memory: `text` at 0x1000.
CallMemory Memory(const std::string& text) {
  return [text](uint64_t address, absl::Span<uint8_t> out) -> size_t {
    if (address < 0x1000 || address >= 0x1000 + text.size()) return 0;
    return text.copy(reinterpret_cast<char*>(out.data()), out.size(), address - 0x1000);
  };
}

TEST(SyscallTextTest, PathsFlagsAndErrors) {
  const uint64_t here = static_cast<uint64_t>(AT_FDCWD);
  const CallMemory memory = Memory(std::string("/etc/x\0", 7));
  EXPECT_EQ(SyscallText(SYS_openat, {here, 0x1000, O_RDONLY | O_CLOEXEC, 0, 0, 0}, 3, memory),
            "openat(AT_FDCWD, \"/etc/x\", O_RDONLY|O_CLOEXEC) = 3");
  EXPECT_EQ(SyscallText(SYS_openat, {here, 0x1000, O_RDWR | O_CREAT, 0644, 0, 0}, -ENOENT, memory),
            "openat(AT_FDCWD, \"/etc/x\", O_RDWR|O_CREAT, 0644) = -1 ENOENT (No such file or "
            "directory)");
  // An int has 32 bits, whatever the register holds.
  EXPECT_EQ(SyscallText(SYS_openat, {0xffffff9c, 0x1000, O_WRONLY, 0, 0, 0}, {}, memory),
            "openat(AT_FDCWD, \"/etc/x\", O_WRONLY)");
}

TEST(SyscallTextTest, WhatIsNotKnownIsShownAsThePointer) {
  EXPECT_EQ(SyscallText(SYS_chdir, {0x1000}, 0, nullptr), "chdir(0x1000) = 0");
  EXPECT_EQ(SyscallText(SYS_chdir, {0x9000}, 0, Memory("x")), "chdir(0x9000) = 0");
  EXPECT_EQ(SyscallText(SYS_chdir, {0}, -EFAULT, Memory("x")),
            "chdir(NULL) = -1 EFAULT (Bad address)");
  // The page after it is not known, so where it ends is not.
  EXPECT_EQ(SyscallText(SYS_chdir, {0x1000}, 0, Memory("half")), "chdir(0x1000) = 0");
}

TEST(SyscallTextTest, DataWritten) {
  EXPECT_EQ(SyscallText(SYS_write, {1, 0x1000, 3, 0, 0, 0}, 3, Memory("a\n\x1b[31m")),
            "write(1, \"a\\n\\x1b\", 3) = 3");
  EXPECT_EQ(SyscallText(SYS_write, {1, 0x1000, 100, 0, 0, 0}, 100, Memory(std::string(100, 'x'))),
            "write(1, \"" + std::string(32, 'x') + "\"..., 100) = 100");
}

TEST(SyscallTextTest, ValuesAndFlags) {
  EXPECT_EQ(SyscallText(SYS_mmap,
                        {0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                         0xffffffffffffffff, 0},
                        0x7f0000000000, nullptr),
            "mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0x0) = "
            "0x7f0000000000");
  EXPECT_EQ(SyscallText(SYS_mprotect, {0x1000, 4096, 0, 0, 0, 0}, 0, nullptr),
            "mprotect(0x1000, 4096, PROT_NONE) = 0");
  EXPECT_EQ(SyscallText(SYS_futex, {0x1000, 0x80, 2, 0, 0, 0}, -EAGAIN, nullptr),
            "futex(0x1000, FUTEX_WAIT|FUTEX_PRIVATE_FLAG, 2, NULL, NULL, 0) = -1 EAGAIN (Resource "
            "temporarily unavailable)");
  EXPECT_EQ(SyscallText(SYS_kill, {12, SIGUSR1, 0, 0, 0, 0}, 0, nullptr), "kill(12, SIGUSR1) = 0");
  EXPECT_EQ(SyscallText(SYS_lseek, {3, static_cast<uint64_t>(-5), 77, 0, 0, 0}, -EINVAL, nullptr),
            "lseek(3, -5, 0x4d) = -1 EINVAL (Invalid argument)");
}

TEST(SyscallTextTest, UnknownCallsAndFewArguments) {
  EXPECT_EQ(SyscallText(9999, {1, 2}, -ENOSYS, nullptr),
            "system call 9999(0x1, 0x2) = -1 ENOSYS (Function not implemented)");
  EXPECT_EQ(SyscallText(SYS_openat, {1}, {}, nullptr), "openat(1)");
  EXPECT_EQ(SyscallText(SYS_getpid, {1, 2, 3, 4, 5, 6}, 7, nullptr), "getpid() = 7");
  EXPECT_EQ(SyscallText(SYS_pause, {}, -514, nullptr), "pause() = -514");
}

}  // namespace
}  // namespace hindsight
