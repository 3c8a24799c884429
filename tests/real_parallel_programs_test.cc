// Programs not written for these tests, with threads, children and generated code: recorded
// exactly.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

// Text of `size` bytes that compresses like text, the same every time; lines of a few words.
std::string Text(size_t size) {
  uint64_t state = 1;
  std::string text;
  while (text.size() < size) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    absl::StrAppend(&text, "word", (state >> 33) % 500, (state >> 55) % 9 == 0 ? "\n" : " ");
  }
  text.resize(size);
  return text;
}

ChildOptions Long() {
  ChildOptions options;
  options.timeout = absl::Seconds(280);
  return options;
}

// Skips the test where the program is not installed (./setup installs all but node).
#define PROGRAM_OR_SKIP(variable, name)           \
  const std::string variable = FindProgram(name); \
  if (variable.empty()) GTEST_SKIP() << (name) << " is not installed"

// In an empty directory of its own, so that it can run twice; everything in one place.
void ExpectScriptUnchanged(const std::string& script, const std::vector<std::string>& flags = {}) {
  const std::string in_directory =
      absl::StrCat("set -e; cd \"$(mktemp -d)\"; trap 'rm -rf \"$PWD\"' EXIT\n", script);
  ExpectRecordsUnchanged({"/bin/bash", "-c", in_directory}, Long(), flags);
}

TEST(RealThreadsTest, Xz) {
  PROGRAM_OR_SKIP(xz, "xz");
  const TempDir directory;
  WriteFile(directory.File("text"), Text(200'000));
  ExpectRecordsUnchanged({xz, "-T2", "--block-size=65536", "-1c", directory.File("text")}, Long());
}

TEST(RealThreadsTest, Pigz) {
  PROGRAM_OR_SKIP(pigz, "pigz");
  const TempDir directory;
  WriteFile(directory.File("text"), Text(600'000));
  ExpectRecordsUnchanged({pigz, "-p2", "-nc", directory.File("text")}, Long());
}

// It begins a second thread from 128 Ki lines on.
TEST(RealThreadsTest, Sort) {
  const TempDir directory;
  std::string lines;
  for (uint32_t i = 0; i < 140'000; ++i) {
    const uint32_t value = i * 2654435761u;
    lines += {static_cast<char>('a' + value % 26), static_cast<char>('a' + value / 26 % 26), '\n'};
  }
  WriteFile(directory.File("text"), lines);
  ChildOptions options = Long();
  options.environment = {"LC_ALL=C"};
  ExpectRecordsUnchanged({"/usr/bin/sort", "--parallel=2", "-S50M", directory.File("text")},
                         options);
}

TEST(RealThreadsTest, Python) {
  ExpectRecordsUnchanged(
      {"/usr/bin/python3", "-c",
       "import threading, queue\n"
       "todo, done = queue.Queue(), queue.Queue()\n"
       "def work():\n"
       "    while (item := todo.get()) is not None: done.put((item, sum(range(item))))\n"
       "threads = [threading.Thread(target=work) for _ in range(4)]\n"
       "for thread in threads: thread.start()\n"
       "for item in range(300): todo.put(item)\n"
       "for thread in threads: todo.put(None)\n"
       "for thread in threads: thread.join()\n"
       "print(sorted(done.queue)[::37])\n"},
      Long());
}

TEST(RealThreadsTest, ImageMagick) {
  PROGRAM_OR_SKIP(convert, "convert-im6.q16");
  ExpectRecordsUnchanged({convert, "-size", "48x48", "gradient:red-blue", "-blur", "0x2", "-resize",
                          "24x24", "-depth", "8", "ppm:-"},
                         Long());
}

TEST(RealChildrenTest, PythonSubprocess) {
  ExpectRecordsUnchanged(
      {"/usr/bin/python3", "-c",
       "import subprocess, sys\n"
       "print(subprocess.run(['/usr/bin/tr', 'a-z', 'A-Z'], input=b'some text',"
       " stdout=subprocess.PIPE).stdout)\n"
       "print(subprocess.run('exit 7', shell=True).returncode)\n"
       "first = subprocess.Popen(['/usr/bin/seq', '500'], stdout=subprocess.PIPE)\n"
       "second = subprocess.Popen(['/usr/bin/wc', '-l'], stdin=first.stdout,"
       " stdout=subprocess.PIPE)\n"
       "first.stdout.close()\n"
       "print(second.communicate()[0], first.wait())\n"},
      Long());
}

TEST(RealChildrenTest, Compiler) {
  PROGRAM_OR_SKIP(gcc, "gcc");
  ExpectScriptUnchanged(
      "cat >sum.c <<'END'\n"
      "int printf(const char*, ...);\n"
      "int main(void) {\n"
      "  unsigned sum = 0;\n"
      "  for (unsigned i = 0; i < 100; i++) sum = sum * 31 + (i ^ sum >> 3);\n"
      "  printf(\"%u\\n\", sum);\n"
      "  return 0;\n"
      "}\n"
      "END\n"
      "gcc -O2 -o sum sum.c\n"
      "./sum\n");
}

TEST(RealChildrenTest, Make) {
  PROGRAM_OR_SKIP(make, "make");
  ExpectScriptUnchanged(
      "for i in 1 2; do echo \"int f$i(int x) { return x * $i; }\" >f$i.c; done\n"
      "echo 'int f1(int); int f2(int); int main(void) { return f1(3) + f2(4); }' >main.c\n"
      "printf 'all: f1.o f2.o main.o\\n\\tgcc -o all $^\\n' >Makefile\n"
      "make -s -j2\n"
      "./all || echo \"it says $?\"\n"
      "make -j2\n");
}

TEST(RealChildrenTest, Git) {
  PROGRAM_OR_SKIP(git, "git");
  ExpectScriptUnchanged(
      "export GIT_CONFIG_NOSYSTEM=1 HOME=/nonexistent\n"
      "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b\n"
      "export GIT_AUTHOR_DATE='2020-01-01 00:00:00 +0000'\n"
      "export GIT_COMMITTER_DATE=\"$GIT_AUTHOR_DATE\"\n"
      "git init -q -b main .\n"
      "echo one >file; echo two >other\n"
      "git add file; git commit -qm first; git add other; echo three >>file\n"
      "git status --short; git commit -qm second; git log --stat; git diff\n");
}

// Server and clients are all recorded.
TEST(RealChildrenTest, RedisUnderLoad) {
  PROGRAM_OR_SKIP(redis, "redis-cli");
  ExpectScriptUnchanged(
      "ln -s /usr/bin/redis-check-rdb redis-server  # the same binary: its name decides\n"
      "./redis-server --port 0 --unixsocket \"$PWD/socket\" --save '' --daemonize no >log &\n"
      "ask() { redis-cli -s \"$PWD/socket\" \"$@\"; }\n"
      "until [[ \"$(ask ping 2>&1)\" == PONG ]]; do sleep 0.02; done\n"
      "for i in {1..200}; do echo \"INCRBY sum $i\"; echo \"LPUSH list $i\"; done | ask "
      ">/dev/null\n"
      "ask get sum; ask llen list; ask lindex list 17\n"
      "ask shutdown nosave; wait\n");
}

TEST(RealChildrenTest, ShellPipelinesAndSubstitutions) {
  ExpectScriptUnchanged(
      "for i in {1..10}; do echo \"$(echo $i | tr 0-9 a-j)\"; done | sort -r | head -3\n"
      "diff <(seq 5) <(seq 2 6) || echo \"differ\"\n"
      "(sleep 0.01; exit 4) & wait $! || echo \"background $?\"\n"
      "trap 'echo caught' USR1; kill -USR1 $$; echo done\n");
}

// Code that is generated at run time.

TEST(RealJitTest, Luajit) {
  PROGRAM_OR_SKIP(luajit, "luajit");
  ExpectRecordsUnchanged({luajit, "-e",
                          "local t, s = {}, 0 "
                          "for i = 1, 20000 do t[i % 100] = (t[i % 100] or 0) + i * 3 % 7 end "
                          "for i = 0, 99 do s = s * 3 % 1000003 + t[i] end "
                          "local f = function(x) return x * x + 1 end "
                          "for i = 1, 20000 do s = (s + f(i)) % 1000003 end "
                          "print(s, ('x'):rep(10), (jit.status()))"},
                         Long());
}

TEST(RealJitTest, Java) {
  PROGRAM_OR_SKIP(java, "java");
  const TempDir directory;
  ExpectRecordsUnchanged(
      {java, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx64m", "-Xshare:auto", "--version"},
      Long());
}

TEST(RealJitTest, Node) {
  PROGRAM_OR_SKIP(node, "node");
  ExpectRecordsUnchanged(
      {node, "-e",
       "let s = 0; const f = (x) => (x * 31 + 7) % 1000003;"
       "for (let i = 0; i < 30000; i++) s = f(s + i); console.log(s, [3, 1, 2].sort());"},
      Long());
}

// What it prints are times: only that it ends well, and that the trace is exact.
TEST(RealTimesTest, OpensslSpeed) {
  PROGRAM_OR_SKIP(openssl, "openssl");
  const Recorded recorded(
      {openssl, "speed", "-seconds", "1", "-bytes", "1024", "-evp", "aes-128-cbc"}, Long());
  EXPECT_EQ(recorded.run().Ending(), "exit 0") << recorded.run().err;
  ExpectExact(recorded.trace());
  ExpectRecordsUnchanged({"/bin/sh", "-c",
                          "seq 3000 | openssl enc -aes-128-cbc -K 00 -iv 00 |"
                          " openssl dgst -sha256"},
                         Long());
}

}  // namespace
}  // namespace hindsight::e2e
