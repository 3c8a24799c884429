// The kernel stores in memory that the program has not touched for long, in many ways; then the
// program prints what is there. Between, in checked(), the program has not read it yet.

#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/programs/require.h"

#define PAGE 4096
#define SIZE (4 * PAGE)

static char area[SIZE] __attribute__((aligned(PAGE)));
static char chunk[8] __attribute__((aligned(PAGE)));
static char other[PAGE] __attribute__((aligned(PAGE)));
static volatile sig_atomic_t handled;

// Longer than the recorder keeps looking at any page.
static void idle(void) {
  for (int i = 0; i < 80; ++i) syscall(SYS_getppid);
}

// Nothing has touched `bytes` since the kernel has.
__attribute__((noinline)) static void checked(const char* name, const void* bytes, int size) {
  const unsigned char* at = bytes;
  printf("%s ", name);  // before looking
  for (int i = 0; i < size; ++i) printf("%02x", at[i]);
  printf("\n");
}

// Fills the area, lets it rest, and makes the call.
#define CHECK(name, size, call)  \
  do {                           \
    memset(area, 0xee, SIZE);    \
    idle();                      \
    REQUIRE((long)(call) >= 0);  \
    checked(name, area, (size)); \
  } while (0)

static void* at(int offset) { return area + offset; }

static void files(int fd) {
  CHECK("read", 64, read(fd, area, 32));
  CHECK("pread", SIZE, pread(fd, at(100), SIZE - 200, 1));
  struct iovec vectors[] = {{at(10), 20}, {at(PAGE + 10), 3000}, {at(3 * PAGE), 100}};
  CHECK("preadv", SIZE, preadv(fd, vectors, 3, 0));
  CHECK("fstat", 256, fstat(fd, at(8)));
  CHECK("statfs", 256, fstatfs(fd, at(8)));
  CHECK("statx", 512, syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_ALL, area));
  CHECK("getcwd", 512, syscall(SYS_getcwd, area, PAGE));
  CHECK("readlink", 128, readlink("/proc/self/exe", area, 100));
  const int directory = open("/proc/self/task", O_RDONLY | O_DIRECTORY);
  CHECK("getdents64", 512, syscall(SYS_getdents64, directory, area, PAGE));
  close(directory);
}

static void sockets(void) {
  int pair[2];
  CHECK("socketpair", 16, socketpair(AF_UNIX, SOCK_DGRAM, 0, at(4)));
  memcpy(pair, at(4), sizeof(pair));
  CHECK("getsockname", 256, ({
          *(socklen_t*)at(200) = 110;
          idle();
          getsockname(pair[0], at(0), at(200));
        }));
  CHECK("getsockopt", 256, ({
          *(socklen_t*)at(200) = 16;
          idle();
          getsockopt(pair[0], SOL_SOCKET, SO_PEERCRED, at(0), at(200));
        }));
  REQUIRE(write(pair[1], "a message for two pieces", 24) == 24);
  CHECK("FIONREAD", 16, ioctl(pair[0], FIONREAD, at(4)));
  struct iovec vectors[] = {{at(PAGE), 10}, {at(2 * PAGE), 100}};
  struct msghdr message = {.msg_name = at(8),
                           .msg_namelen = 64,
                           .msg_iov = vectors,
                           .msg_iovlen = 2,
                           .msg_control = at(3 * PAGE),
                           .msg_controllen = 64};
  CHECK("recvmsg", SIZE, recvmsg(pair[0], &message, 0));
  REQUIRE(write(pair[1], "one", 3) == 3 && write(pair[1], "another", 7) == 7);
  struct iovec parts[] = {{at(PAGE), 100}, {at(2 * PAGE), 100}};
  struct mmsghdr* const many = (void*)other;
  memset(many, 0, 2 * sizeof(*many));
  for (int i = 0; i < 2; ++i) {
    many[i].msg_hdr.msg_iov = &parts[i];
    many[i].msg_hdr.msg_iovlen = 1;
  }
  CHECK("recvmmsg", SIZE, recvmmsg(pair[0], many, 2, 0, NULL));
  checked("recvmmsg lengths", other, 2 * sizeof(*many));
  REQUIRE(write(pair[1], "x", 1) == 1);
  CHECK("poll", 32, ({
          *(struct pollfd*)at(8) = (struct pollfd){.fd = pair[0], .events = POLLIN};
          idle();
          poll(at(8), 1, 1000);
        }));
  CHECK("select", 256, ({
          FD_ZERO((fd_set*)at(0));
          FD_SET(pair[0], (fd_set*)at(0));
          idle();
          select(pair[0] + 1, at(0), NULL, NULL, NULL);
        }));
  const int epoll = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN, .data.u64 = 42};
  REQUIRE(epoll_ctl(epoll, EPOLL_CTL_ADD, pair[0], &event) == 0);
  CHECK("epoll_wait", 64, epoll_wait(epoll, at(0), 4, 1000));
  CHECK("recvfrom", 16, recvfrom(pair[0], at(4), 8, 0, NULL, NULL));
}

static void times_and_limits(void) {
  CHECK("clock_gettime", 64, syscall(SYS_clock_gettime, CLOCK_MONOTONIC, at(8)));
  CHECK("gettimeofday", 64, syscall(SYS_gettimeofday, at(8), NULL));
  CHECK("getrusage", 160, getrusage(RUSAGE_CHILDREN, at(8)));
  CHECK("getrlimit", 32, syscall(SYS_getrlimit, RLIMIT_NOFILE, at(8)));
  CHECK("prlimit", 32, syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, at(8)));
  CHECK("uname", 400, uname(at(0)));
  CHECK("sysinfo", 128, sysinfo(at(0)));
  CHECK("getrandom", 64, syscall(SYS_getrandom, at(5), 30, 0));
  CHECK("sched_getaffinity", 32, syscall(SYS_sched_getaffinity, 0, 8, at(0)));
  CHECK("getgroups", 64, getgroups(0, at(0)));
  CHECK("getresuid", 64, getresuid(at(0), at(16), at(32)));
  const int timer = timerfd_create(CLOCK_MONOTONIC, 0);
  CHECK("timerfd_gettime", 64, timerfd_gettime(timer, at(0)));
  CHECK("pipe", 16, pipe(at(4)));
  CHECK("mincore", 16, syscall(SYS_mincore, other, PAGE, at(0)));
}

static void handler(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)info, (void)context;
  handled = 1;
}

static void signals_and_children(void) {
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
  REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0);
  CHECK("rt_sigaction", 64, syscall(SYS_rt_sigaction, SIGUSR1, NULL, at(0), 8));
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR2);
  REQUIRE(sigprocmask(SIG_BLOCK, &blocked, NULL) == 0);
  CHECK("rt_sigprocmask", 64, syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, at(0), 8));
  raise(SIGUSR2);
  CHECK("rt_sigpending", 64, syscall(SYS_rt_sigpending, at(0), 8));
  CHECK("rt_sigtimedwait", 128, syscall(SYS_rt_sigtimedwait, &blocked, at(0), NULL, 8));
  const pid_t child = fork();
  if (child == 0) _exit(7);
  CHECK("wait4", 256, syscall(SYS_wait4, child, at(0), 0, at(64)));
  // Memory that is other memory now.
  char* const mapped = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(mapped, 0xdd, PAGE);
  idle();
  REQUIRE(madvise(mapped, PAGE, MADV_DONTNEED) == 0);
  checked("madvise", mapped, 64);
  memset(mapped, 0xdd, PAGE);
  idle();
  REQUIRE(mmap(mapped, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
               0) == mapped);
  checked("mmap over", mapped, 64);
  // A signal frame on a stack of its own.
  stack_t stack = {.ss_sp = area, .ss_size = SIZE};
  action.sa_flags |= SA_ONSTACK;
  REQUIRE(sigaltstack(&stack, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
  memset(area, 0xee, SIZE);
  idle();
  raise(SIGUSR1);
  REQUIRE(handled);
}

static void chunks(int fd) {
  const int sink = open("/dev/null", O_WRONLY);
  for (int i = 0; i < 20; ++i) {
    const long got = pread(fd, chunk, sizeof(chunk), i * 8);
    REQUIRE(write(sink, chunk, got) == got);  // a chunk was read
  }
  close(sink);
}

static void watched(int fd) {
  memset(area, 'a', SIZE);
  for (int i = 0; i < 8; ++i) syscall(SYS_getppid);  // innocent
  REQUIRE(pread(fd, area, SIZE, 0) > 5000);          // the writer
  idle();
}  // long after

int main(void) {
  char path[] = "/tmp/kernel_writes.XXXXXX";
  const int fd = mkstemp(path);
  REQUIRE(fd >= 0 && unlink(path) == 0);
  for (int i = 0; i < 3000; ++i) REQUIRE(dprintf(fd, "%07d\n", i) == 8);
  setvbuf(stdout, NULL, _IOFBF, 1 << 16);
  chunks(fd);
  watched(fd);
  REQUIRE(lseek(fd, 0, SEEK_SET) == 0);
  files(fd);
  sockets();
  times_and_limits();
  signals_and_children();
  return 0;
}
