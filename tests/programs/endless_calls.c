// Makes system calls without end; prints a line after each thousand. For recorders that are killed.
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void) {
  for (long calls = 1;; calls++) {
    syscall(SYS_getppid);
    if (calls % 1000 != 0) continue;
    printf("%ld calls\n", calls);
    fflush(stdout);
  }
}
