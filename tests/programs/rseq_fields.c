// Registers a struct rseq of its own, in which the kernel puts the processor's number before the
// next instruction.
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/rseq.h>
#include <sys/syscall.h>

#include "tests/programs/require.h"

static struct rseq own __attribute__((aligned(32)));

int main(void) {
  if (__rseq_size != 0) {
    struct rseq* const libcs = (struct rseq*)((char*)__builtin_thread_pointer() + __rseq_offset);
    REQUIRE(syscall(SYS_rseq, libcs, sizeof(own), RSEQ_FLAG_UNREGISTER, RSEQ_SIG) == 0);
  }
  own.cpu_id = (uint32_t)RSEQ_CPU_ID_UNINITIALIZED;
  if (syscall(SYS_rseq, &own, sizeof(own), 0, RSEQ_SIG) != 0) return 0;  // not on this kernel
  const uint32_t at_once = *(volatile uint32_t*)&own.cpu_id;
  printf("known at once: %d\n", at_once < 65536);
  printf("the start is the same: %d\n", *(volatile uint32_t*)&own.cpu_id_start == at_once);
  return 0;
}
