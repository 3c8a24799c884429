// Calls on memory, in an order and with arguments that a seed decides, and loads and stores where
// there may be memory or not. Prints a sum of all that it sees: the same for each seed, whatever
// the addresses of the stack and of libraries.
//
//   memory_walk SEED CALLS
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/require.h"

enum { kPage = 4096, kPages = 96, kFilePages = 24, kMostPages = 12 };

static char* const memory = (char*)0x2ab000000000;
static uint64_t state, sum = 1;
static int file, pipe_ends[2], socket_ends[2];
static sigjmp_buf back;
static char output[kPage];

static uint32_t number(uint32_t below) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (uint32_t)(state >> 16) % below;
}

static void see(uint64_t value) { sum = (sum ^ value) * 1099511628211u; }

static void on_fault(int signal, siginfo_t* info, void* context) {
  (void)context;
  see((uint64_t)signal);
  see((uint64_t)info->si_code);
  see((uint64_t)info->si_addr);
  siglongjmp(back, 1);
}

static char* page(void) { return memory + number(kPages) * kPage; }
static char* any_place(void) { return memory + number(kPages * kPage); }

// Byte by byte, or aligned: where an access that reaches over two pages faults is another matter.
static void load_or_store(char* at) {
  volatile char* const bytes = at;
  volatile uint64_t* const word = (uint64_t*)((uintptr_t)at & ~(uintptr_t)7);
  const uint32_t what = number(5), size = number(9000), value = number(256);
  if (what == 0) *word = value * 0x0101010101010101u;
  if (what == 1) see(*word);
  if (what == 2) bytes[0] = (char)value;
  if (what == 3) see((uint64_t)bytes[0]);
  for (uint32_t i = 0; what == 4 && i < size; ++i) bytes[i] = (char)value;
}

static void use_much(uint32_t times) {
  for (volatile uint32_t left = times; left != 0; --left) {
    if (sigsetjmp(back, 1) == 0) load_or_store(any_place());
  }
}

// Segments end meanwhile.
static void work_on(void) {
  for (volatile uint32_t left = number(3000); left > 0; --left) continue;
}

static long in_child(void) {
  fflush(stdout);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    use_much(20);
    _exit((int)(sum & 63));
  }
  int status;
  REQUIRE(waitpid(child, &status, 0) == child);
  return status;
}

static long heap(void) {
  char* const before = sbrk((intptr_t)(number(9) * 3000) - 12000);
  if (before == (char*)-1) return 0;
  char* const end = sbrk(0);
  for (char* at = before; at < end; at += 700) {
    see((uint64_t)*at);
    *at = 1;
  }
  return 1;
}

static long change_map(char* start, size_t bytes) {
  const int read_write = PROT_READ | PROT_WRITE, own = MAP_PRIVATE | MAP_FIXED;
  const int rights[] = {PROT_NONE, PROT_READ, read_write, read_write, PROT_WRITE, PROT_EXEC};
  char* const to = page();
  const size_t new_bytes = (1 + number(kMostPages)) * kPage;
  switch (number(10)) {
    case 0:
    case 1:
      return (long)mmap(start, bytes, read_write, own | MAP_ANONYMOUS, -1, 0);
    case 2:
      return (long)mmap(start, bytes, number(2) ? read_write : PROT_READ, own, file,
                        (off_t)number(kFilePages) * kPage);
    case 3:
      return munmap(start, bytes);
    case 4:
    case 5:
      return mprotect(start, bytes, rights[number(6)]);
    case 6:
      return madvise(start, bytes, number(3) ? MADV_DONTNEED : MADV_PAGEOUT);
    case 7:
      return (long)mremap(start, bytes, new_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to);
    case 8:
      return (long)mremap(start, bytes, new_bytes, 0);
    default:
      return (long)mremap(start, bytes, bytes, MREMAP_MAYMOVE | MREMAP_DONTUNMAP | MREMAP_FIXED,
                          to);
  }
}

static long transfer(void) {
  struct iovec parts[2] = {{any_place(), number(5000)}, {any_place(), number(5000)}};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
  char* const at = any_place();
  const size_t bytes = number(9000);
  switch (number(8)) {
    case 0:
      return pread(file, at, bytes, number(kFilePages * kPage));
    case 1:
      return preadv(file, parts, 2, number(kFilePages * kPage));
    case 2:
    case 3:
      return write(pipe_ends[1], at, bytes / 2);
    case 4:
      return read(pipe_ends[0], at, bytes);
    case 5:
      return send(socket_ends[0], at, bytes / 2, MSG_DONTWAIT);
    case 6:
      return recvmsg(socket_ends[1], &message, MSG_DONTWAIT);
    default:
      return process_vm_writev(getpid(), parts, 1, parts + 1, 1, 0);
  }
}

static long call(void) {
  char* const start = page();
  const size_t most = (size_t)(memory + kPages * kPage - start), bytes = number(kMostPages) * kPage;
  const uint32_t which = number(20);
  if (which == 0) return in_child();
  if (which == 1) return heap();
  if (which < 10) return transfer();
  return change_map(start, bytes + kPage < most ? bytes + kPage : most);
}

int main(int count, char** arguments) {
  REQUIRE(count == 3);
  state = strtoull(arguments[1], NULL, 0) * 0x9e3779b97f4a7c15u + 1;
  const struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
  REQUIRE(sigaction(SIGSEGV, &action, NULL) == 0 && sigaction(SIGBUS, &action, NULL) == 0);
  signal(SIGPIPE, SIG_IGN);
  setvbuf(stdout, output, _IOFBF, sizeof(output));  // nothing is in the heap
  // Its own file: it is at rest.
  REQUIRE((file = open("/proc/self/exe", O_RDONLY)) >= 0);
  REQUIRE(pipe2(pipe_ends, O_NONBLOCK) == 0);
  REQUIRE(socketpair(AF_UNIX, SOCK_DGRAM, 0, socket_ends) == 0);
  REQUIRE(mmap(memory, kPages * kPage, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == memory);
  for (int left = atoi(arguments[2]); left > 0; --left) {
    const long result = call();
    see(result == -1 ? 1000 + (uint64_t)errno : (uint64_t)result);
    use_much(3 + number(10));
    work_on();
    if (left % 20 == 0) printf("%d %016lx\n", left, sum);
  }
  printf("end %016lx\n", sum);
  return 0;
}
