// errno and thread-local variables.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

__thread int in_thread = 5;
static __thread char local_text[16] = "thread";

int probe(void) {
  int fd = open("/nonexistent/file", O_RDONLY);
  in_thread += 2;
  return fd;  // errno is set
}

int main(void) {
  int fd = probe();
  printf("%d %s %d %s\n", fd, strerror(errno), in_thread, local_text);
  return 0;
}
