// Tries to get out. Each attempt is made in a child process that has been confined.

#include "confine/confinement.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "base/unique_fd.h"

namespace hindsight {
namespace {

namespace fs = std::filesystem;

class ConfinementTest : public testing::Test {
 protected:
  ConfinementTest() {
    EXPECT_NE(mkdtemp(top_.data()), nullptr);
    fs::create_directories(top_ + "/trace/threads");
    std::ofstream(top_ + "/trace/threads/file") << "inside";
    std::ofstream(top_ + "/secret") << "outside";
    fs::create_symlink("../secret", top_ + "/trace/link");
    root_ = UniqueFd(open((top_ + "/trace").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  ~ConfinementTest() override { fs::remove_all(top_); }

  // What `attempt` returns, 0 to 99, in a child that is confined to top_/trace.
  int InConfinement(const std::function<int()>& attempt, uint64_t memory_limit_bytes = 0) {
    const pid_t child = fork();
    if (child == 0) {
      ConfinementOptions options;
      options.readable_directories = {root_.get()};
      options.memory_limit_bytes = memory_limit_bytes;
      options.out_of_memory = [] { _exit(77); };
      const bool complete = Confine(options).empty();
      _exit(complete ? attempt() : 99);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  // Whether a system call that returned `result` was refused, as the exit status of an attempt.
  static int Refused(long result) {
    return result == -1 && (errno == EPERM || errno == EACCES) ? 0 : 1;
  }
  static int Opens(long fd) { return fd >= 0 ? 0 : 1; }

  std::string top_ = testing::TempDir() + "/confined.XXXXXX";
  UniqueFd root_;
};

TEST_F(ConfinementTest, NothingIsExecuted) {
  EXPECT_EQ(InConfinement([] { return Refused(execl("/bin/true", "true", nullptr)); }), 0);
  EXPECT_EQ(InConfinement([] {
              const UniqueFd fd(memfd_create("program", 0));
              return Refused(syscall(SYS_execveat, fd.get(), "", nullptr, nullptr, AT_EMPTY_PATH));
            }),
            0);
  EXPECT_EQ(InConfinement([] { return Refused(fork()); }), 0);
  EXPECT_EQ(InConfinement([] { return Refused(vfork()); }), 0);
}

TEST_F(ConfinementTest, NothingIsConnectedTo) {
  const UniqueFd listener(socket(AF_INET, SOCK_STREAM, 0)), made(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  sockaddr* const generic = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(bind(listener.get(), generic, length), 0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  ASSERT_EQ(getsockname(listener.get(), generic, &length), 0);
  // Not even with a socket from before.
  EXPECT_EQ(InConfinement([&] { return Refused(connect(made.get(), generic, length)); }), 0);
  EXPECT_EQ(InConfinement(
                [&] { return Refused(sendto(made.get(), "x", 1, MSG_FASTOPEN, generic, length)); }),
            0);
  for (const int family : {AF_INET, AF_INET6, AF_UNIX, AF_NETLINK}) {
    EXPECT_EQ(InConfinement([family] { return Refused(socket(family, SOCK_STREAM, 0)); }), 0);
  }
}

TEST_F(ConfinementTest, OnlyTheTraceIsRead) {
  const int root = root_.get();
  const std::string inside = top_ + "/trace/threads/file", outside = top_ + "/secret";
  EXPECT_EQ(InConfinement([&] { return Opens(openat(root, "threads/file", O_RDONLY)); }), 0);
  EXPECT_EQ(InConfinement([&] { return Opens(open(inside.c_str(), O_RDONLY)); }), 0);
  EXPECT_EQ(InConfinement([&] { return Opens(openat(root, "threads", O_DIRECTORY)); }), 0);
  EXPECT_EQ(InConfinement([&] { return Refused(open("/etc/passwd", O_RDONLY)); }), 0);
  EXPECT_EQ(InConfinement([&] { return Refused(open(outside.c_str(), O_RDONLY)); }), 0);
  EXPECT_EQ(InConfinement([&] { return Refused(openat(root, "../secret", O_RDONLY)); }), 0);
  EXPECT_EQ(InConfinement([&] { return Refused(openat(root, "link", O_RDONLY)); }), 0);
  EXPECT_EQ(InConfinement([&] { return Refused(open("/proc/self/mem", O_RDONLY)); }), 0);
  EXPECT_EQ(InConfinement([&] {
              open_how how = {};
              return Refused(syscall(SYS_openat2, AT_FDCWD, "/etc/passwd", &how, sizeof(how)));
            }),
            0);
}

TEST_F(ConfinementTest, NothingIsWritten) {
  const int root = root_.get();
  const std::string file = top_ + "/trace/threads/file";
  EXPECT_EQ(InConfinement([&] { return Refused(openat(root, "new", O_CREAT | O_WRONLY, 0600)); }),
            0);
  EXPECT_EQ(InConfinement([&] { return Refused(open(file.c_str(), O_RDWR)); }), 0);
  EXPECT_EQ(InConfinement([&] {
              open_how how = {};
              how.flags = O_WRONLY;
              return Refused(syscall(SYS_openat2, AT_FDCWD, file.c_str(), &how, sizeof(how)));
            }),
            0);
  EXPECT_EQ(InConfinement([&] { return Refused(unlink(file.c_str())); }), 0);
  EXPECT_EQ(InConfinement([&] { return Refused(truncate(file.c_str(), 0)); }), 0);
  EXPECT_EQ(InConfinement([&] { return Refused(mkdirat(root, "new", 0700)); }), 0);
  EXPECT_EQ(InConfinement([&] { return Refused(chmod(file.c_str(), 0777)); }), 0);
  EXPECT_EQ(InConfinement([&] { return Refused(rename(file.c_str(), "/tmp/x")); }), 0);
  EXPECT_EQ(fs::file_size(file), 6);
}

TEST_F(ConfinementTest, NoOtherProcessIsReached) {
  const pid_t parent = getpid();
  EXPECT_EQ(InConfinement([&] { return Refused(ptrace(PTRACE_ATTACH, parent, 0, 0)); }), 0);
  EXPECT_EQ(InConfinement([&] { return Refused(ptrace(PTRACE_TRACEME, 0, 0, 0)); }), 0);
  EXPECT_EQ(InConfinement([&] { return Refused(kill(parent, 0)); }), 0);
  EXPECT_EQ(InConfinement([&] {
              char byte = 0;
              iovec here = {&byte, 1}, there = {&byte, 1};
              return Refused(process_vm_readv(parent, &here, 1, &there, 1, 0));
            }),
            0);
}

TEST_F(ConfinementTest, PrivilegesDoNotComeBack) {
  EXPECT_EQ(InConfinement([] { return Refused(setuid(0)); }), 0);
  EXPECT_EQ(InConfinement([] { return Refused(unshare(CLONE_NEWUSER)); }), 0);
}

TEST_F(ConfinementTest, WhatReplayNeedsStillWorks) {
  EXPECT_EQ(InConfinement([] {
              int answer = 1;
              std::thread([&answer] { answer = 0; }).join();
              return answer;
            }),
            0);
  // Host assist, and Unicorn's generated code.
  EXPECT_EQ(InConfinement([] {
              void* code = mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
              return code == MAP_FAILED ? 1 : 0;
            }),
            0);
  EXPECT_EQ(InConfinement([] { return std::abort(), 0; }), 128 + SIGABRT);
}

// Shared memory, as the guest's is, which no rlimit counts.
TEST_F(ConfinementTest, MemoryIsLimited) {
  constexpr size_t kBytes = 256 << 20;
  const auto touch = [](size_t bytes) {
    void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return 1;
    for (size_t at = 0; at < bytes; at += 4096) static_cast<volatile char*>(memory)[at] = 1;
    // The same memory again is no more memory.
    char* again = static_cast<char*>(mremap(memory, 0, kBytes, MREMAP_MAYMOVE));
    for (size_t at = 0; at < bytes; at += 4096) static_cast<volatile char*>(again)[at] = 1;
    usleep(400'000);
    return 0;
  };
  EXPECT_EQ(InConfinement([&] { return touch(64 << 20); }, 96 << 20), 0);
  EXPECT_EQ(InConfinement([&] { return touch(128 << 20); }, 96 << 20), 77);
}

}  // namespace
}  // namespace hindsight
