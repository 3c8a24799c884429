// System calls that write to memory, each to a place chosen at random. They are made directly: what
// the C library's functions have in memory besides would be theirs.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>

#include "recorder/testdata/memory_truth.h"

static int pipe_ends[2], sockets[2], packets[2], zero, self, event, watcher, timer, root;

void prepare_calls(void) {
  REQUIRE(pipe(pipe_ends) == 0);
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
  REQUIRE(socketpair(AF_UNIX, SOCK_DGRAM, 0, packets) == 0);
  zero = open("/dev/urandom", O_RDONLY);
  self = open("/proc/self/exe", O_RDONLY);
  root = open("/", O_RDONLY | O_DIRECTORY);
  event = eventfd(0, EFD_NONBLOCK);
  watcher = epoll_create1(0);
  timer = timerfd_create(CLOCK_MONOTONIC, 0);
  REQUIRE(zero >= 0 && self >= 0 && root >= 0 && event >= 0 && watcher >= 0 && timer >= 0);
  struct epoll_event wanted = {.events = EPOLLOUT, .data.u64 = 0x1122334455667788};
  REQUIRE(epoll_ctl(watcher, EPOLL_CTL_ADD, sockets[0], &wanted) == 0);
}

static long call(long number, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e) {
  return syscall(number, a, b, c, d, e, 0);
}

#define P(size) ((uint64_t)place(size))

static void through_pipe(void) {
  char bytes[3000];
  const size_t size = 1 + random_below(sizeof(bytes));
  memset(bytes, (int)random_below(256), size);
  REQUIRE(write(pipe_ends[1], bytes, size) == (ssize_t)size);
  // Often more is asked for than is there.
  call(SYS_read, pipe_ends[0], P(sizeof(bytes)), sizeof(bytes), 0, 0);
}

static void from_file(void) {
  const size_t size = 1 + random_below(20000);
  switch (random_below(4)) {
    case 0:
      call(SYS_read, zero, P(size), size, 0, 0);
      break;
    case 1:
      call(SYS_pread64, self, P(size), size, random_below(9000), 0);
      break;
    case 2: {
      const struct iovec parts[2] = {{place(size), size}, {place(70), 70}};
      call(SYS_readv, zero, (uint64_t)parts, 2, 0, 0);
      break;
    }
    default: {
      const struct iovec parts[2] = {{place(9), 9}, {place(size), size}};
      call(SYS_preadv, self, (uint64_t)parts, 2, random_below(9000), 0);
      break;
    }
  }
}

static void through_sockets(void) {
  char bytes[500];
  const size_t size = 1 + random_below(sizeof(bytes));
  memset(bytes, (int)random_below(256), size);
  REQUIRE(write(packets[1], bytes, size) == (ssize_t)size);
  if (random_below(2) == 0) {
    socklen_t* const length = (socklen_t*)place(sizeof(*length));
    *length = 100;
    call(SYS_recvfrom, packets[0], P(600), 600, 0, P(100));
    syscall(SYS_getsockname, packets[0], place(100), length);
    return;
  }
  struct iovec parts[2] = {{place(40), 40}, {place(600), 600}};
  struct msghdr* const message = (struct msghdr*)place(sizeof(*message));
  *message = (struct msghdr){.msg_iov = parts, .msg_iovlen = 2};
  message->msg_name = place(100);
  message->msg_namelen = 100;
  message->msg_control = place(200);
  message->msg_controllen = 200;
  call(SYS_recvmsg, packets[0], (uint64_t)message, 0, 0, 0);
}

static void about_files(void) {
  switch (random_below(10)) {
    case 0:
      call(SYS_fstat, self, P(sizeof(struct stat)), 0, 0, 0);
      break;
    case 1:
      call(SYS_newfstatat, AT_FDCWD, (uint64_t) "/", P(sizeof(struct stat)), 0, 0);
      break;
    case 2:
      call(SYS_statx, AT_FDCWD, (uint64_t) "/", 0, STATX_ALL, P(sizeof(struct statx)));
      break;
    case 3:
      call(SYS_statfs, (uint64_t) "/", P(sizeof(struct statfs)), 0, 0, 0);
      break;
    case 4:
      call(SYS_readlink, (uint64_t) "/proc/self/exe", P(600), 600, 0, 0);
      break;
    case 5:
      call(SYS_getcwd, P(600), 600, 0, 0, 0);
      break;
    case 6:
      lseek(root, 0, SEEK_SET);
      call(SYS_getdents64, root, P(1000), 1000, 0, 0);
      break;
    case 7:
      call(SYS_ioctl, pipe_ends[0], FIONREAD, P(4), 0, 0);
      break;
    case 8: {
      struct flock* const lock = (struct flock*)place(sizeof(*lock));
      *lock = (struct flock){.l_type = F_WRLCK};
      call(SYS_fcntl, self, F_GETLK, (uint64_t)lock, 0, 0);
      break;
    }
    default:
      call(SYS_ioctl, self, FS_IOC_GETFLAGS, P(8), 0, 0);
      break;
  }
}

static void about_process(void) {
  switch (random_below(14)) {
    case 0:
      call(SYS_uname, P(sizeof(struct utsname)), 0, 0, 0, 0);
      break;
    case 1:
      call(SYS_sysinfo, P(sizeof(struct sysinfo)), 0, 0, 0, 0);
      break;
    case 2:
      call(SYS_getrusage, RUSAGE_SELF, P(sizeof(struct rusage)), 0, 0, 0);
      break;
    case 3:
      call(SYS_times, P(sizeof(struct tms)), 0, 0, 0, 0);
      break;
    case 4:
      call(SYS_getgroups, 50, P(200), 0, 0, 0);
      break;
    case 5:
      call(SYS_getresuid, P(4), P(4), P(4), 0, 0);
      break;
    case 6:
      call(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, P(sizeof(struct rlimit)), 0);
      break;
    case 7:
      call(SYS_rt_sigprocmask, SIG_BLOCK, 0, P(8), 8, 0);
      break;
    case 8:
      call(SYS_rt_sigaction, SIGUSR2, 0, P(32), 8, 0);
      break;
    case 9:
      call(SYS_sched_getaffinity, 0, 128, P(128), 0, 0);
      break;
    case 10:
      call(SYS_getcpu, P(4), P(4), 0, 0, 0);
      break;
    case 11:
      call(SYS_sched_getparam, 0, P(4), 0, 0, 0);
      break;
    case 12:
      call(SYS_get_robust_list, 0, P(8), P(8), 0, 0);
      break;
    default:
      call(SYS_mincore, (uint64_t)&pipe_ends & ~4095ul, 4096, P(1), 0, 0);
      break;
  }
}

static void about_time(void) {
  switch (random_below(7)) {
    case 0:
      call(SYS_clock_gettime, CLOCK_MONOTONIC, P(16), 0, 0, 0);
      break;
    case 1:
      call(SYS_gettimeofday, P(16), P(8), 0, 0, 0);
      break;
    case 2:
      call(SYS_time, P(8), 0, 0, 0, 0);
      break;
    case 3:
      call(SYS_clock_getres, CLOCK_REALTIME, P(16), 0, 0, 0);
      break;
    case 4:
      call(SYS_getitimer, ITIMER_REAL, P(32), 0, 0, 0);
      break;
    case 5:
      call(SYS_timerfd_gettime, timer, P(32), 0, 0, 0);
      break;
    default:
      call(SYS_sched_rr_get_interval, 0, P(16), 0, 0, 0);
      break;
  }
}

static void about_events(void) {
  switch (random_below(6)) {
    case 0: {
      struct pollfd* const polled = (struct pollfd*)place(2 * sizeof(*polled));
      polled[0] = (struct pollfd){sockets[0], POLLOUT, 0};
      polled[1] = (struct pollfd){zero, POLLIN, 0};
      call(SYS_poll, (uint64_t)polled, 2, 0, 0, 0);
      break;
    }
    case 1:
      call(SYS_epoll_wait, watcher, P(5 * sizeof(struct epoll_event)), 5, 0, 0);
      break;
    case 2: {
      fd_set* const set = (fd_set*)place(sizeof(*set));
      memset(set, 0, sizeof(*set));
      FD_SET(pipe_ends[0], set);
      FD_SET(zero, set);  // stays set
      struct timeval* const timeout = (struct timeval*)place(sizeof(*timeout));
      *timeout = (struct timeval){0, 100};
      call(SYS_select, 64, (uint64_t)set, 0, 0, (uint64_t)timeout);
      break;
    }
    case 3:
      eventfd_write(event, 1 + random_below(1000));
      call(SYS_read, event, P(8), 8, 0, 0);
      break;
    case 4: {
      int* const ends = (int*)place(8);
      REQUIRE(call(SYS_pipe2, (uint64_t)ends, O_CLOEXEC, 0, 0, 0) == 0);
      close(ends[0]);
      close(ends[1]);
      break;
    }
    default:
      call(SYS_getsockopt, sockets[0], SOL_SOCKET, SO_PEERCRED, P(12),
           (uint64_t) & (socklen_t){12});
      break;
  }
}

static void between_processes(void) {
  const size_t size = 1 + random_below(6000);
  struct iovec local = {place(size), size}, remote = {place(size), size};
  if (random_below(2) == 0) {
    process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
  } else {
    process_vm_writev(getpid(), &local, 1, &remote, 1, 0);
  }
}

static void fails(void) {
  switch (random_below(3)) {
    case 0:
      call(SYS_read, -1, P(100), 100, 0, 0);
      break;
    case 1:  // the first part is there, the rest is not
      call(SYS_pread64, self, 0x10000000 + 15 * 4096, 8 * 4096, 0, 0);
      break;
    default:
      call(SYS_newfstatat, AT_FDCWD, (uint64_t) "/nonexistent", P(144), 0, 0);
      break;
  }
}

void call_kernel(void) {
  static void (*const kCalls[])(void) = {
      through_pipe,  from_file,  through_sockets, about_files,       from_file,
      about_process, about_time, about_events,    between_processes, fails};
  kCalls[random_below(sizeof(kCalls) / sizeof(kCalls[0]))]();
  if (random_below(4) == 0) call(SYS_getrandom, P(200), 1 + random_below(200), 0, 0, 0);
}
