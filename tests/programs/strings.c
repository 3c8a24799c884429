// The string instructions, with and without REP, both directions.
#include <stdint.h>
#include <stdio.h>
#include <string.h>

char target[64];
char source[64] = "the quick brown fox jumps over the lazy dog";

static void rep_movsb(void* to, const void* from, uint64_t n) {
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");  // the copy
}

static void rep_stosq(void* to, uint64_t value, uint64_t n) {
  __asm__ volatile("rep stosq" : "+D"(to), "+c"(n) : "a"(value) : "memory");
}

static uint64_t scan(const char* text, char wanted) {
  uint64_t n = ~0ull;
  __asm__ volatile("repne scasb" : "+D"(text), "+c"(n) : "a"(wanted) : "cc", "memory");
  return ~n - 1;
}

static uint64_t common(const char* a, const char* b, uint64_t n) {
  const uint64_t all = n;
  unsigned char different;
  __asm__ volatile("cmp %%rcx, %%rcx; repe cmpsb; setne %3"
                   : "+D"(a), "+S"(b), "+c"(n), "=qm"(different)
                   :
                   : "cc", "memory");
  return all - n - different;
}

static void backward(char* to, const char* from, uint64_t n) {
  to += n - 1;
  from += n - 1;
  __asm__ volatile("std; rep movsb; cld" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}

int main(void) {
  rep_stosq(target, 0x2e2e2e2e2e2e2e2eull, 7);
  printf("%s\n", target);
  rep_movsb(target, source, 19);  // call copy
  printf("%s\n", target);
  rep_movsb(target, source, 0);
  printf("%lu %lu\n", (unsigned long)scan(source, 'q'), (unsigned long)scan(source, 0));
  printf("%lu\n", (unsigned long)common(source, "the quick red", 13));
  backward(target + 4, target, 20);
  printf("%s\n", target);
  return 0;
}
