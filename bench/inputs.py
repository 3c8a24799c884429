"""What bench/run has programs read: the same on every machine, but for the system's headers."""

import os
import subprocess

HEADERS = (
    "arpa/inet.h complex.h ctype.h dirent.h errno.h fcntl.h inttypes.h locale.h math.h "
    "netinet/in.h poll.h pthread.h regex.h setjmp.h signal.h stdio.h stdlib.h string.h "
    "sys/mman.h sys/socket.h sys/stat.h termios.h threads.h time.h unistd.h wchar.h"
).split()
FUNCTIONS = 20
FUNCTION = """
struct record%(i)d { int id; double values[%(count)d]; struct record%(i)d* next; };
int function%(i)d(struct record%(i)d* list, const char* name) {
  int sum = 0;
  for (struct record%(i)d* at = list; at != NULL; at = at->next) {
    for (int k = 0; k < %(count)d; k++) {
      sum += at->values[k] > %(i)d ? at->id * k : (int)strlen(name) - k;
    }
    if (sum %% %(divisor)d == 0) printf("%%s: %%d\\n", name, sum);
    switch (sum & 3) {
      case 0: sum += toupper(name[0]); break;
      case 1: sum -= (int)lround(sqrt(sum)); break;
      default: sum ^= at->id << (sum & 7);
    }
  }
  return sum;
}
"""


def make_text(path, size):
    """So many bytes that compress like text."""
    state = 1
    words = []
    for _ in range(3000):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        words.append("%x" % (state >> 33 & 0xFFFFFFF))
    with open(path, "w", encoding="ascii") as text:
        written = 0
        while written < size:
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            word = words[(state >> 33) % 3000 * ((state >> 50) % 3000) // 3000]
            text.write(word + " ")
            written += len(word) + 1


def make_c_file(path):
    """A preprocessed C file: many declarations, and functions. Returns the compiler proper."""
    source = "".join("#include <%s>\n" % header for header in HEADERS)
    source += "".join(FUNCTION % {"i": i, "count": i % 13 + 3, "divisor": i % 7 + 2}
                      for i in range(FUNCTIONS))
    subprocess.run(["gcc", "-E", "-x", "c", "-", "-o", path], input=source, text=True, check=True)
    return subprocess.run(["gcc", "-print-prog-name=cc1"], check=True, stdout=subprocess.PIPE,
                          text=True).stdout.strip()


def make_makefile(directory):
    """A folder in which `make` compiles four small files and links them."""
    os.makedirs(directory)
    names = ["part%d" % i for i in range(4)]
    for i, name in enumerate(names):
        with open(os.path.join(directory, name + ".c"), "w", encoding="ascii") as text:
            text.write("#include <stdio.h>\nint %s(int n) { return printf(\"%%d\\n\", n * %d); }\n"
                       % (name, i))
    with open(os.path.join(directory, "main.c"), "w", encoding="ascii") as text:
        text.write("".join("int %s(int n);\n" % name for name in names))
        text.write("int main(void) { return %s; }\n"
                   % " + ".join("(%s(1) < 0)" % name for name in names))
    with open(os.path.join(directory, "Makefile"), "w", encoding="ascii") as text:
        objects = " ".join(name + ".o" for name in ["main"] + names)
        text.write("program: %s\n\tgcc -o $@ $^\n%%.o: %%.c\n\tgcc -O1 -c -o $@ $<\n" % objects)
