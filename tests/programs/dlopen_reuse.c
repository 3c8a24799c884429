// Two libraries loaded one after the other at the same address, over and over.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <libgen.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>

#include "tests/programs/require.h"

static uintptr_t base_of(void* library) {
  struct link_map* map = NULL;
  REQUIRE(dlinfo(library, RTLD_DI_LINKMAP, &map) == 0);
  return map->l_addr;
}

int main(void) {
  char self[4096] = "", path[4200];
  REQUIRE(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
  const char* directory = dirname(self);
  uintptr_t base = 0;
  int same = 0, sum = 0;
  for (int i = 0; i < 20; i++) {
    snprintf(path, sizeof(path), "%s/library_%s.so", directory, i % 2 == 0 ? "one" : "other");
    void* library = dlopen(path, RTLD_NOW);
    REQUIRE(library != NULL);
    int (*const answer)(int) = (int (*)(int))dlsym(library, "answer");
    const char* const* name = dlsym(library, "name");
    REQUIRE(answer != NULL && name != NULL);
    sum = sum * 3 + answer(i);
    if (i < 2) printf("%s %d\n", *name, answer(7));
    same += base_of(library) == base;
    base = base_of(library);
    dlclose(library);
  }
  printf("sum %d, %s\n", sum, same > 10 ? "addresses used again" : "never the same address");
  return 0;
}
