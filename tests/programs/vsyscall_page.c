// Calls what old static binaries call: the page at a fixed address, which the kernel executes in
// the caller's place.
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

static const uintptr_t kPage = 0xffffffffff600000;

// The kernel may have been told to have none (vsyscall=none).
static int is_there(void) {
  char line[512];
  int found = 0;
  FILE* const maps = fopen("/proc/self/maps", "r");
  while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
    found |= strstr(line, "[vsyscall]") != NULL;
  }
  if (maps != NULL) fclose(maps);
  return found;
}

int main(void) {
  long (*const get_time_of_day)(struct timeval*, void*) = (long (*)(struct timeval*, void*))kPage;
  long (*const get_time)(long*) = (long (*)(long*))(kPage + 0x400);
  long (*const get_cpu)(unsigned*, unsigned*, void*) =
      (long (*)(unsigned*, unsigned*, void*))(kPage + 0x800);
  if (!is_there()) return 0;
  int good = 0;
  for (int i = 0; i < 20; i++) {
    struct timeval now = {0, 0};
    long seconds = 0;
    unsigned cpu = ~0u;
    const long result = get_time_of_day(&now, NULL);
    const long got = get_time(&seconds);
    const long third = get_cpu(&cpu, NULL, NULL);
    good += result == 0 && got == seconds && seconds - now.tv_sec <= 1 && third == 0 && cpu < 4096;
  }
  printf("%d of 20\n", good);
  return 0;
}
