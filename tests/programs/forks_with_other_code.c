// Processes that fork, and whose code is then no longer their maker's: other files where code was,
// code that is written anew, code that a child does not get, code that only one of them executes.
// Prints what each call returned.

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kPage = 4096, kPages = 4 };
static char* const kPlace = (char*)0x46000000;
static char* const kOther = (char*)0x47000000;

// mov $value, %eax; ret. At the beginning of each page.
static void WriteCode(char* page, int value) {
  page[0] = (char)0xb8;
  memcpy(page + 1, &value, sizeof(value));
  page[5] = (char)0xc3;
}

// With a name as long as it is used: what has none is treated differently.
static char names[3][48];

static int FileOf(int value) {
  static int count;
  char* const name = strcpy(names[count++], "/var/tmp/forks_with_other_code.XXXXXX");
  const int file = mkstemp(name);
  char pages[kPages * kPage] = {0};
  for (int i = 0; i < kPages; ++i) WriteCode(pages + i * kPage, value + i);
  if (file < 0 || write(file, pages, sizeof(pages)) != sizeof(pages)) exit(2);
  return file;
}

static void Map(char* at, int file, int protection) {
  const int flags = MAP_PRIVATE | MAP_FIXED | (file < 0 ? MAP_ANONYMOUS : 0);
  if (mmap(at, kPages * kPage, protection, flags, file, 0) != at) exit(3);
}

static int Call(char* at, int page) { return ((int (*)(void))(void*)(at + page * kPage))(); }

static void Report(const char* who, const char* when, char* at) {
  printf("%s %s:", who, when);
  for (int i = 0; i < kPages; ++i) printf(" %d", Call(at, i));
  printf("\n");
  fflush(stdout);
}

// The child does `run`; its maker waits.
static void InChild(void (*run)(void)) {
  const pid_t child = fork();
  if (child == 0) {
    run();
    _exit(0);
  }
  int status;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) printf("signal %d\n", WTERMSIG(status));
  fflush(stdout);
}

static int first, second, third;

static void Inherits(void) { Report("child", "as its maker", kPlace); }

static void MapsAnotherFile(void) {
  Map(kPlace, second, PROT_READ | PROT_EXEC);
  Report("child", "another file", kPlace);
  InChild(Inherits);
  Map(kPlace, third, PROT_READ | PROT_EXEC);
  Report("child", "a third file", kPlace);
}

static void Writes(void) {
  mprotect(kPlace, kPages * kPage, PROT_READ | PROT_WRITE);
  WriteCode(kPlace + kPage, 1001);
  mprotect(kPlace, kPages * kPage, PROT_READ | PROT_EXEC);
  Report("child", "written", kPlace);
  InChild(Inherits);
}

// By a name that does not say what it is.
static void WritesThroughFile(void) {
  char link[64];
  snprintf(link, sizeof(link), "/var/tmp/forks_with_other_code.link.%d", getpid());
  if (symlink("/proc/self/mem", link) != 0) exit(4);
  const int memory = open(link, O_RDWR);
  unlink(link);
  char code[6];
  WriteCode(code, 2001);
  if (pwrite(memory, code, sizeof(code), (off_t)(long)kPlace) != sizeof(code)) exit(4);
  // A page that nobody has executed.
  if (pwrite(memory, code, sizeof(code), (off_t)(long)(kPlace + 3 * kPage)) != sizeof(code))
    exit(4);
  Report("child", "written by file", kPlace);
}

static void CallsWhatIsNotThere(void) { Call(kOther, 1); }

static void MapsWhatItDidNotGet(void) {
  Map(kOther, third, PROT_READ | PROT_EXEC);
  Report("child", "what it did not get", kOther);
}

static void MapsWhatIsEmpty(void) {
  mprotect(kOther, kPages * kPage, PROT_READ | PROT_WRITE);
  for (int i = 0; i < kPages; ++i) WriteCode(kOther + i * kPage, 3000 + i);
  mprotect(kOther, kPages * kPage, PROT_READ | PROT_EXEC);
  Report("child", "wiped", kOther);
}

static void WritesWritable(void) {
  Report("child", "writable", kOther);
  for (int i = 0; i < kPages; ++i) WriteCode(kOther + i * kPage, 4000 + i);
  Report("child", "writable, written", kOther);
}

// Of the C library, which all processes have: functions that nobody has called yet.
static void WritesIntoLibrary(void) {
  printf("child library: %ld %ld\n", a64l("zz"), labs(-7));
  char code[6];
  WriteCode(code, 5001);
  char* const page = (char*)((long)&a64l & -kPage);
  mprotect(page, 2 * kPage, PROT_READ | PROT_WRITE | PROT_EXEC);
  memcpy((char*)(void*)&a64l, code, sizeof(code));
  mprotect(page, 2 * kPage, PROT_READ | PROT_EXEC);
  printf("child library: %ld\n", a64l("zz"));
  const int memory = open("/proc/self/mem", O_RDWR);
  if (pwrite(memory, code, sizeof(code), (off_t)(long)&strfry) != sizeof(code)) exit(4);
  char word[] = "";
  printf("child library: %d\n", (int)(long)strfry(word));
  fflush(stdout);
}

// Both go on at once, and each gets other code at the same place.
static void BothMap(void) {
  int ways[2];
  if (pipe(ways) != 0) exit(5);
  const pid_t child = fork();
  Map(kPlace, child == 0 ? second : third, PROT_READ | PROT_EXEC);
  int sum = 0;
  for (int i = 0; i < 1000; ++i) sum += Call(kPlace, i % kPages);
  if (child == 0) {
    _exit(write(ways[1], &sum, sizeof(sum)) != sizeof(sum));
  }
  int childs = 0;
  if (read(ways[0], &childs, sizeof(childs)) != sizeof(childs)) exit(6);
  waitpid(child, NULL, 0);
  printf("both: %d %d\n", sum, childs);
  Report("maker", "its own", kPlace);
}

int main(void) {
  first = FileOf(100);
  second = FileOf(200);
  third = FileOf(300);
  Map(kPlace, first, PROT_READ | PROT_EXEC);
  // The last page is executed by children first.
  printf("maker: %d %d %d\n", Call(kPlace, 0), Call(kPlace, 1), Call(kPlace, 2));
  fflush(stdout);
  for (int i = 0; i < 3; ++i) InChild(Inherits);
  InChild(MapsAnotherFile);
  InChild(Writes);
  Report("maker", "after them", kPlace);

  Map(kOther, -1, PROT_READ | PROT_WRITE);
  for (int i = 0; i < kPages; ++i) WriteCode(kOther + i * kPage, 400 + i);
  mprotect(kOther, kPages * kPage, PROT_READ | PROT_EXEC);
  madvise(kOther, kPages * kPage, MADV_DONTFORK);
  Report("maker", "not of a file", kOther);
  InChild(CallsWhatIsNotThere);
  InChild(MapsWhatItDidNotGet);
  madvise(kOther, kPages * kPage, MADV_DOFORK);
  madvise(kOther, kPages * kPage, MADV_WIPEONFORK);
  Report("maker", "not of a file", kOther);
  InChild(CallsWhatIsNotThere);
  InChild(MapsWhatIsEmpty);
  madvise(kOther, kPages * kPage, MADV_KEEPONFORK);
  Report("maker", "not of a file", kOther);

  mprotect(kOther, kPages * kPage, PROT_READ | PROT_WRITE | PROT_EXEC);
  Report("maker", "writable", kOther);
  InChild(WritesWritable);
  Report("maker", "writable", kOther);

  for (int i = 0; i < 3; ++i) BothMap();
  Map(kPlace, first, PROT_READ | PROT_EXEC);
  Report("maker", "the first file", kPlace);
  for (int i = 0; i < 2; ++i) InChild(WritesIntoLibrary);
  for (int i = 0; i < 2; ++i) InChild(WritesThroughFile);
  Report("maker", "the first file", kPlace);
  InChild(Inherits);
  InChild(WritesIntoLibrary);
  printf("maker library: %ld\n", a64l("zz"));
  for (int i = 0; i < 3; ++i) unlink(names[i]);
  return 0;
}
