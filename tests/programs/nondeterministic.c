// Instructions that are not a function of registers and memory.
#include <cpuid.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int host_has(const char* feature) {
  // Not by cpuid: a recorder may answer that with less than the machine has.
  char line[8192];
  FILE* file = fopen("/proc/cpuinfo", "r");
  int found = 0;
  while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL) {
    if (strncmp(line, "flags", 5) == 0) {
      char* at = strstr(line, feature);
      found = at != NULL && at[-1] == ' ' && strchr(" \n", at[strlen(feature)]) != NULL;
      break;
    }
  }
  if (file != NULL) fclose(file);
  return found;
}

static uint64_t rdtsc(void) {
  uint32_t low, high;
  __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
  return (uint64_t)high << 32 | low;
}

static uint64_t rdtscp(void) {
  uint32_t low, high, processor;
  __asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(processor));
  return (uint64_t)high << 32 | low;
}

int main(void) {
  int backward = 0;
  uint64_t last = rdtsc(), mixed = 0;
  for (int i = 0; i < 500; i++) {
    uint64_t now = i & 1 ? rdtscp() : rdtsc();
    backward += now < last;
    mixed ^= now;
    last = now;
  }
  printf("rdtsc: %d times backward, %s\n", backward, mixed != 0 ? "changing" : "standing");

  int same = 0, taken = 0;
  if (host_has("rdrand")) {
    uint64_t value = 0, previous = 0;
    for (int i = 0; i < 100; i++) {
      unsigned char ok;
      __asm__ volatile("rdrand %0; setc %1" : "=r"(value), "=qm"(ok) : : "cc");
      if (ok) taken++;
      if (ok && value == previous) same++;
      previous = value;
    }
  }
  printf("rdrand: %s\n", taken == 0 || taken > 50 ? "as the machine" : "WRONG");
  printf("rdrand repeats: %d\n", same);

  unsigned a = 0, b = 0, c = 0, d = 0;
  char vendor[13] = "";
  __get_cpuid(0, &a, &b, &c, &d);
  memcpy(vendor, &b, 4);
  memcpy(vendor + 4, &d, 4);
  memcpy(vendor + 8, &c, 4);
  __get_cpuid(1, &a, &b, &c, &d);
  printf("cpuid: %zu letters, sse2 %d\n", strlen(vendor), (d >> 26) & 1);

  if (host_has("xsave")) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    printf("xgetbv: %d\n", low & 3);
  } else {
    printf("xgetbv: 3\n");
  }
  return 0;
}
