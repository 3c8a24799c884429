// Has itself executed anew without randomization, as debuggers and setarch do.
#include <stdio.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/programs/require.h"

enum { kAsk = 0xffffffff };

int main(int argc, char** argv) {
  const int begun = personality(kAsk);
  printf("%d arguments: %x\n", argc - 1, (unsigned)begun);
  REQUIRE(argc < 3);
  if ((begun & ADDR_NO_RANDOMIZE) == 0) {
    printf("before %x\n", (unsigned)personality(PER_LINUX | ADDR_NO_RANDOMIZE));
    printf("now %x\n", (unsigned)personality(kAsk));
    fflush(stdout);
    if (fork() == 0) {
      printf("child %x\n", (unsigned)personality(kAsk));
      fflush(stdout);
      execl(argv[0], argv[0], "child", (char*)NULL);
    }
    REQUIRE(wait(NULL) > 0);
    execl(argv[0], argv[0], "again", (char*)NULL);
    return 1;
  }
  printf("before %x\n", (unsigned)personality(PER_LINUX));
  printf("now %x\n", (unsigned)personality(kAsk));
  return 0;
}
