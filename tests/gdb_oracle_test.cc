// gdb on a live process and gdb on its recording get the same commands at the same breakpoints, and
// must answer the same. The recording may not know some memory; it may not show other bytes.

#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/substitute.h"
#include "tests/harness/child.h"
#include "tests/harness/files.h"
#include "tests/harness/gdb.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

// Asked at each stop of breakpoint $0, at most $1 times: "answer: STOP|WHAT|VALUE". Memory is that
// of the program itself, its heap and its stack, in lines of 64 bytes; the C library's own depends
// on the processor's features, which a recording hides. What is different in each run, the kernel's
// random bytes and pointers that the C library mangles with them, is named instead, and so is what
// points to the stack, which engines place differently.
constexpr char kScript[] = R"gdb(
set width 0
set confirm off
set breakpoint pending on
set print inferior-events off
break $0
python
import re, struct
def place(address):
    start, end = STACK
    return "stack-%x" % (end - address) if start <= address < end else "%x" % address
def answer(stop, what, value):
    text = str(value).replace("\n", "; ").replace("target:", "")
    text = re.sub("0x([0-9a-f]+)", lambda found: place(int(found[1], 16)), text)
    gdb.write("\nanswer: %d|%s|%s\n" % (stop, what, text))
def read(at, size): return gdb.selected_inferior().read_memory(at, size).tobytes()
def number(name): return int(gdb.parse_and_eval("(unsigned long)$$" + name)) & (2**64 - 1)
def mappings():
    for row in gdb.execute("info proc mappings", to_string=True).splitlines():
        fields = row.split()
        if len(fields) >= 5 and fields[0].startswith("0x"):
            yield int(fields[0], 16), int(fields[1], 16), fields[4], " ".join(fields[5:])
def named(data, secrets, mapped):
    canary, guard = secrets
    words = []
    for word in struct.unpack("<8Q", data):
        turned = ((word >> 17) | (word << 47)) & (2**64 - 1)
        if word & ~0xff == canary: words.append("canary")
        elif word == guard: words.append("guard")
        elif any(start <= turned ^ guard < end for start, end in mapped):
            words.append("mangled " + place(turned ^ guard))
        else: words.append(place(word))
    return " ".join(words)
def ask_memory(stop):
    fs = number("fs_base")
    secrets = struct.unpack("<QQ", read(fs + 0x28, 16))
    rsp = number("rsp")
    # Of the words of a text, one in 100,000 gives an address below 2^47, but none a mapped one.
    # Numbers are mangled too, where a function keeps one in rbp.
    mapped = [(0, 2**16)] + [(start, end) for start, end, rights, name in mappings()]
    for start, end, rights, name in mappings():
        stack = start <= rsp < end
        if "w" not in rights or not (stack or name == "[heap]" or name == PROGRAM): continue
        # Further up the stack lies what the dynamic linker left there of the processor's features.
        first, last = (rsp & ~63, min(end, rsp + 1024)) if stack else (start, end)
        for at in range(first, last, 64):
            if at <= RANDOM + 15 and RANDOM < at + 64: continue
            try: data = read(at, 64)
            except gdb.MemoryError: answer(stop, "memory " + place(at), "unavailable")
            else:
                if any(data): answer(stop, "memory " + place(at), named(data, secrets, mapped))
def ask(stop):
    global PROGRAM, RANDOM, STACK
    STACK = [(end - 2**23, end) for start, end, ignored, name in mappings() if name == "[stack]"][0]
    auxv = gdb.execute("info auxv", to_string=True).splitlines()
    RANDOM = [int(row.split()[-1], 0) for row in auxv if "AT_RANDOM" in row][0]
    PROGRAM = [row.split('"')[1] for row in auxv if "AT_EXECFN" in row][0]
    answer(stop, "backtrace", gdb.execute("backtrace 12", to_string=True))
    for name in "rip rsp rbp rbx rdi rsi r12 r13 r14 r15".split():
        answer(stop, name, hex(number(name)))
    for what in "args", "locals":
        try: answer(stop, what, gdb.execute("info " + what, to_string=True))
        except gdb.error as error: answer(stop, what, error)
    own = [row for row in mappings() if row[3] in (PROGRAM, "[heap]")]
    answer(stop, "mappings", own)
    ask_memory(stop)
for stop in range($1):
    gdb.execute("run" if LIVE and stop == 0 else "continue", to_string=True)
    if not gdb.selected_inferior().pid or gdb.selected_frame().name() is None: break
    ask(stop)
end
)gdb";

const std::vector<std::string>& CleanEnvironment() {
  static const auto* const environment = new std::vector<std::string>{
      "/usr/bin/env",
      "-i",
      "HOME=/nonexistent",
      "LC_ALL=C",
      "PYTHONHASHSEED=0",
      "LD_BIND_NOW=1",
      "DEBUGINFOD_URLS=",
      "PATH=/usr/bin:/bin",
      "GLIBC_TUNABLES=glibc.pthread.rseq=0:glibc.malloc.tcache_count=0"};
  return *environment;
}

using Answers = std::map<std::string, std::string>;

Answers Parse(const std::string& text) {
  Answers answers;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::StartsWith(line, "answer: ")) continue;
    const std::vector<std::string> fields = absl::StrSplit(line.substr(8), absl::MaxSplits('|', 2));
    if (fields.size() == 3) answers[absl::StrCat(fields[0], " ", fields[1])] = fields[2];
  }
  return answers;
}

// Runs a command in the clean environment.
std::string Run(std::vector<std::string> command) {
  std::vector<std::string> argv = CleanEnvironment();
  argv.insert(argv.end(), command.begin(), command.end());
  ChildOptions options;
  options.directory = "/";
  const ChildResult result = RunProcess(argv, options);
  EXPECT_EQ(result.Ending(), "exit 0") << result.err;
  return result.out + result.err;
}

void ExpectSameAnswers(const std::vector<std::string>& program, const std::string& breakpoint,
                       int stops) {
  const TempDir directory;
  const std::string script = absl::Substitute(kScript, breakpoint, stops);
  WriteFile(directory.File("live"),
            absl::StrCat("set startup-with-shell off\nunset environment LINES\n"
                         "unset environment COLUMNS\npython LIVE = True\n",
                         script, "\nkill\n"));
  WriteFile(directory.File("recorded"), absl::StrCat("python LIVE = False\n", script));
  std::vector<std::string> live = LikeTheRecorded(
      {"/usr/bin/gdb", "-nx", "-q", "-batch", "-x", directory.File("live"), "--args"});
  live.insert(live.end(), program.begin(), program.end());
  const std::string live_text = Run(live);
  std::vector<std::string> record = RecordCommand();
  record.insert(record.end(), {"-o", directory.File("trace"), "--"});
  record.insert(record.end(), program.begin(), program.end());
  Run(record);
  const std::string recorded_text = Run({Hindsight(), "replay", directory.File("trace"), "--",
                                         "-nx", "-q", "-batch", "-x", directory.File("recorded")});

  const Answers truth = Parse(live_text), shown = Parse(recorded_text);
  ASSERT_GE(truth.size(), 20u) << live_text;
  ASSERT_TRUE(truth.contains(absl::StrCat(stops - 1, " rip"))) << live_text;
  int unavailable = 0, failures = 0;
  const std::string zeros;
  for (const Answers& some : {truth, shown}) {
    for (const auto& [what, ignored] : some) {
      const auto live_answer = truth.find(what), answer = shown.find(what);
      const std::string& native = live_answer == truth.end() ? zeros : live_answer->second;
      const std::string& recorded = answer == shown.end() ? zeros : answer->second;
      unavailable += recorded == "unavailable";
      if (native == recorded || recorded == "unavailable" || ++failures > 10) continue;
      ADD_FAILURE() << what << "\n  live:     " << native << "\n  recorded: " << recorded;
    }
  }
  EXPECT_LE(unavailable, static_cast<int>(truth.size()) / 50) << recorded_text;
}

TEST(GdbOracleTest, FramesAndLocals) { ExpectSameAnswers({Program("steps")}, "accumulate", 1); }

TEST(GdbOracleTest, StringsInMemory) { ExpectSameAnswers({Program("strings")}, "main", 1); }

// Later it has random numbers in memory.
TEST(GdbOracleTest, Sqlite) {
  const TempDir directory;
  const std::string file = directory.File("commands");
  WriteFile(file,
            "create table t(a, b);\ninsert into t values(1, 'one'), (2, 'two');\n"
            "select b from t where a > 1;\n.quit\n");
  ExpectSameAnswers({FindProgram("sqlite3"), "-batch", "-init", file, ":memory:"}, "sqlite3_step",
                    2);
}

TEST(GdbOracleTest, Python) {
  const TempDir directory;
  const std::string file = directory.File("sorting.py");
  WriteFile(file, "print(sorted({3: 'c', 1: 'a', 2: 'b'}))\n");
  ExpectSameAnswers({FindProgram("python3"), "-S", "-s", file}, "PyList_Sort", 1);
}

}  // namespace
}  // namespace hindsight::e2e
