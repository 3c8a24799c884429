// Files read and written through io_uring, whose queues the kernel and the program share, and
// through the older aio calls.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "tests/programs/require.h"

enum { kEntries = 8, kBlock = 512, kBlocks = 32 };

static char* submission_ring;
static char* completion_ring;
static struct io_uring_sqe* requests;
static struct io_uring_params params;
static int ring;

static unsigned* word(char* base, unsigned offset) { return (unsigned*)(void*)(base + offset); }

static int open_ring(void) {
  ring = (int)syscall(SYS_io_uring_setup, kEntries, &params);
  if (ring < 0) return 0;
  const int access = PROT_READ | PROT_WRITE, shared = MAP_SHARED | MAP_POPULATE;
  submission_ring = mmap(NULL, params.sq_off.array + params.sq_entries * 4, access, shared, ring,
                         IORING_OFF_SQ_RING);
  completion_ring = mmap(NULL, params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe),
                         access, shared, ring, IORING_OFF_CQ_RING);
  requests =
      mmap(NULL, params.sq_entries * sizeof(*requests), access, shared, ring, IORING_OFF_SQES);
  REQUIRE(submission_ring != MAP_FAILED && completion_ring != MAP_FAILED);
  REQUIRE((void*)requests != MAP_FAILED);
  return 1;
}

static void put(int operation, int file, void* buffer, uint64_t offset, uint64_t tag) {
  unsigned* tail = word(submission_ring, params.sq_off.tail);
  const unsigned index = *tail & *word(submission_ring, params.sq_off.ring_mask);
  memset(&requests[index], 0, sizeof(requests[index]));
  requests[index].opcode = (uint8_t)operation;
  requests[index].fd = file;
  requests[index].addr = (uint64_t)(uintptr_t)buffer;
  requests[index].len = operation == IORING_OP_NOP ? 0 : kBlock;
  requests[index].off = offset;
  requests[index].user_data = tag;
  word(submission_ring, params.sq_off.array)[index] = index;
  atomic_store_explicit((atomic_uint*)tail, *tail + 1, memory_order_release);
}

// Submits what was put and takes as many completions; sums tags and results.
static uint64_t complete(unsigned count) {
  REQUIRE(syscall(SYS_io_uring_enter, ring, count, count, IORING_ENTER_GETEVENTS, NULL, 0) ==
          (long)count);
  uint64_t sum = 0;
  unsigned* head = word(completion_ring, params.cq_off.head);
  for (unsigned i = 0; i < count; i++) {
    // Written by the kernel, outside of any system call.
    while (atomic_load((atomic_uint*)word(completion_ring, params.cq_off.tail)) == *head) {
    }
    const struct io_uring_cqe* entry =
        (struct io_uring_cqe*)(void*)(completion_ring + params.cq_off.cqes) +
        (*head & *word(completion_ring, params.cq_off.ring_mask));
    REQUIRE(entry->res >= 0);
    sum += entry->user_data * 1000 + (uint64_t)entry->res;
    atomic_store((atomic_uint*)head, *head + 1);
  }
  return sum;
}

static void use_ring(int file) {
  if (!open_ring()) return;  // not permitted here
  static char blocks[kEntries][kBlock];
  uint64_t sum = 0, bytes = 0;
  put(IORING_OP_NOP, -1, NULL, 0, 7);
  printf("nothing: %llu\n", (unsigned long long)complete(1));
  for (unsigned i = 0; i < kBlocks; i += kEntries) {
    for (unsigned j = 0; j < kEntries; j++) {
      memset(blocks[j], (int)(i + j + 1), kBlock);
      put(IORING_OP_WRITE, file, blocks[j], (uint64_t)(i + j) * kBlock, i + j);
    }
    sum += complete(kEntries);
  }
  for (unsigned i = 0; i < kBlocks; i += kEntries) {
    memset(blocks, 0, sizeof(blocks));
    for (unsigned j = 0; j < kEntries; j++) {
      put(IORING_OP_READ, file, blocks[j], (uint64_t)(i + j) * kBlock, i + j);
    }
    sum += complete(kEntries);
    for (unsigned j = 0; j < kEntries; j++) bytes += (unsigned char)blocks[j][j * 3];
  }
  printf("io_uring: sum %llu, bytes %llu\n", (unsigned long long)sum, (unsigned long long)bytes);
}

static void use_aio(int file) {
  aio_context_t context = 0;
  if (syscall(SYS_io_setup, 4, &context) != 0) return;
  static char blocks[4][kBlock];
  struct iocb requests_of[4];
  struct iocb* pointers[4];
  struct io_event events[4];
  memset(requests_of, 0, sizeof(requests_of));
  for (int i = 0; i < 4; i++) {
    requests_of[i].aio_lio_opcode = IOCB_CMD_PREAD;
    requests_of[i].aio_fildes = (uint32_t)file;
    requests_of[i].aio_buf = (uint64_t)(uintptr_t)blocks[i];
    requests_of[i].aio_nbytes = kBlock;
    requests_of[i].aio_offset = i * 3 * kBlock;
    pointers[i] = &requests_of[i];
  }
  REQUIRE(syscall(SYS_io_submit, context, 4, pointers) == 4);
  REQUIRE(syscall(SYS_io_getevents, context, 4, 4, events, NULL) == 4);
  int sum = 0;
  for (int i = 0; i < 4; i++) sum += (int)events[i].res + blocks[i][100];
  syscall(SYS_io_destroy, context);
  printf("aio: %d\n", sum);
}

int main(void) {
  char path[] = "/tmp/rings.XXXXXX";
  const int file = mkstemp(path);
  REQUIRE(file >= 0);
  unlink(path);
  use_ring(file);
  use_aio(file);
  return 0;
}
