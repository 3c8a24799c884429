// Small; built statically, and at a fixed address, and as usual.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char** argv) {
  char directory[4096];
  for (int i = 1; i < argc; i++) printf("argument %d: %s\n", i, argv[i]);
  printf("HINDSIGHT_TEST=%s\n", getenv("HINDSIGHT_TEST") ? getenv("HINDSIGHT_TEST") : "(none)");
  printf("directory %s\n", getcwd(directory, sizeof(directory)) ? directory : "?");
  char line[256];
  size_t letters = 0;
  while (fgets(line, sizeof(line), stdin) != NULL) letters += strlen(line);
  fprintf(stderr, "read %zu letters\n", letters);
  char* copy = strdup("heap");
  printf("%s %.3f %Lg\n", copy, 3.14159, 1.5L);
  free(copy);
  return 42;
}
