// Core files of recordings, opened by debuggers that know nothing of recordings.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/substitute.h"
#include "tests/harness/gdb.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

using ::testing::HasSubstr;

// What `thread apply all bt` printed: each thread's frames, by the thread's id.
using Stacks = std::map<int, std::vector<std::string>>;

Stacks StacksIn(const std::string& text) {
  // "Thread 2 (Thread 0x7f.. (LWP 12)):" of a core, "Thread 2 (Thread 11.12 "name"):" of a server.
  static const std::regex kThread(R"(Thread \d+ \((?:.*LWP |Thread \d+\.)(\d+).*\):)");
  Stacks stacks;
  std::vector<std::string>* frames = nullptr;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::string copy = absl::StrReplaceAll(line, {{" from target:", " from "}});
    std::smatch match;
    if (std::regex_match(copy, match, kThread)) {
      frames = &stacks[std::stoi(match[1])];
    } else if (frames != nullptr && absl::StartsWith(line, "#")) {
      frames->push_back(copy);
    } else if (frames != nullptr && line.empty()) {
      frames = nullptr;
    }
  }
  return stacks;
}

Stacks StacksOfCore(const std::string& program, const std::string& core) {
  const GdbResult gdb = RunGdbOnCore(program, core, {"thread apply all bt"});
  const Stacks stacks = StacksIn(gdb.child.out);
  EXPECT_FALSE(stacks.empty()) << gdb.text;
  return stacks;
}

// Goes somewhere by `script`, and expects that a core written there has the stacks that the server
// shows, and as many threads.
void ExpectSameStacks(const std::string& trace, const std::string& program,
                      const std::string& script, size_t threads) {
  const TempDir directory;
  const std::string core = directory.File("core");
  const GdbResult gdb =
      RunGdb(trace, absl::Substitute("$0\nmonitor core $1\nthread apply all bt\n", script, core));
  const Stacks expected = StacksIn(gdb.child.out);
  EXPECT_EQ(expected.size(), threads) << gdb.text;
  EXPECT_EQ(StacksOfCore(program, core), expected) << gdb.text;
}

const Recorded& Threads() {
  static const Recorded* recorded = new Recorded({Program("thread_names")});
  return *recorded;
}

TEST(CoreTest, AllThreadsHaveTheStacksThatTheServerShows) {
  ExpectSameStacks(Threads().trace(), Program("thread_names"), "break round_reached\ncontinue", 4);
  ExpectSameStacks(Threads().trace(), Program("thread_names"),
                   "break round_reached\ncontinue\ncontinue\nreverse-continue", 4);
}

TEST(CoreTest, RegistersAndVariablesAreThoseOfThePosition) {
  const Recorded recorded({Program("steps")});
  const TempDir directory;
  const GdbResult gdb = RunGdb(recorded.trace(), absl::Substitute(R"(
break triple if value == 3
continue
monitor core $0
python registers = [item for item in all_registers().items() if item[0] != "orig_rax"]
python say("registers", sorted(registers))
python say("value", value("value"))
)",
                                                                  directory.File("core")));
  const GdbResult core = RunGdbOnCore(
      Program("steps"), directory.File("core"),
      {"source " + Runfile("tests/harness/prelude.py"),
       "python say('registers', sorted((name, text) for name, text in all_registers().items() if "
       "name != 'orig_rax'))",
       "python say('value', value('value'))"});
  EXPECT_EQ(core.Answer("value"), "3");
  EXPECT_EQ(core.Answer("registers"), gdb.Answer("registers"));
  EXPECT_THAT(core.Answer("registers"), HasSubstr("rip"));
}

// gdb's own core of the live program, stopped at the same place.
TEST(CoreTest, IsAsGdbsOwnCoreOfTheLiveProgram) {
  const Recorded recorded({Program("steps")});
  const TempDir directory;
  constexpr char kThere[] = "break triple\n$0\ncontinue 2\n$1 $2\n";
  RunGdbOnProgram({Program("steps")}, absl::Substitute(kThere, "continue", "generate-core-file",
                                                       directory.File("live")));
  RunGdb(recorded.trace(),
         absl::Substitute(kThere, "continue", "monitor core", directory.File("core")));
  const std::vector<std::string> questions = {"bt", "info registers rip rsp rbp eflags",
                                              "info sharedlibrary", "info auxv", "x/16xb $sp"};
  const GdbResult live = RunGdbOnCore(Program("steps"), directory.File("live"), questions);
  const GdbResult core = RunGdbOnCore(Program("steps"), directory.File("core"), questions);
  // The kernel chooses where the stack lies and what is random.
  static const std::regex kAddress("0x[0-9a-f]+");
  const auto frames = [](const GdbResult& gdb) {
    std::vector<std::string> lines;
    for (const absl::string_view line : absl::StrSplit(gdb.child.out, '\n')) {
      if (absl::StartsWith(line, "#")) {
        lines.push_back(std::regex_replace(std::string(line), kAddress, "A"));
      }
    }
    return lines;
  };
  EXPECT_EQ(frames(core), frames(live)) << live.text << core.text;
  EXPECT_GE(frames(core).size(), 2u);
  for (const char* text : {"libc.so.6", "AT_ENTRY", "AT_EXECFN"}) {
    EXPECT_THAT(live.text, HasSubstr(text));
    EXPECT_THAT(core.text, HasSubstr(text));
  }
}

TEST(CoreTest, ACrashIsNamed) {
  const Recorded recorded({Program("crash_in_thread")});
  const TempDir directory;
  const ChildResult made =
      RunHindsight({"core", recorded.trace(), "end", "-o", directory.File("core")});
  EXPECT_EQ(made.Ending(), "exit 0") << made.err;
  const GdbResult core = RunGdbOnCore(Program("crash_in_thread"), directory.File("core"),
                                      {"bt", "print $_siginfo.si_signo", "info threads"});
  EXPECT_THAT(core.text, HasSubstr("Program terminated with signal SIGSEGV"));
  EXPECT_THAT(core.text, HasSubstr("$1 = 11"));
  EXPECT_THAT(core.text, HasSubstr("load (index=13)"));
}

TEST(CoreTest, ThePlaceMayBeAPositionOrANumber) {
  const TempDir directory;
  const GdbResult gdb = RunGdb(Threads().trace(), R"(
break round_reached
continue
continue
python say("position", when().split(",")[0].split()[1])
thread apply all bt
)");
  const std::string file = directory.File("at position");
  EXPECT_EQ(RunHindsight({"core", Threads().trace(), gdb.Answer("position"), "-o", file}).Ending(),
            "exit 0");
  EXPECT_EQ(StacksOfCore(Program("thread_names"), file), StacksIn(gdb.child.out));
  const ChildResult first =
      RunHindsight({"core", Threads().trace(), "1", "-o", directory.File("first")});
  EXPECT_EQ(first.Ending(), "exit 0") << first.err;
  EXPECT_EQ(StacksOfCore(Program("thread_names"), directory.File("first")).size(), 1u);
}

TEST(CoreTest, ErrorsAreOneLineAndLeaveNoFile) {
  const TempDir directory;
  const auto expect_error = [&](const std::vector<std::string>& arguments,
                                const std::string& text) {
    std::vector<std::string> argv = {"core"};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    const ChildResult result = RunHindsight(argv);
    EXPECT_NE(result.Ending(), "exit 0") << text;
    EXPECT_THAT(result.err, HasSubstr(text));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_EQ(result.out, "");
  };
  const std::string& trace = Threads().trace();
  const std::string file = directory.File("core");
  WriteFile(directory.File("precious.core"), "precious");
  expect_error({trace, "1", "-o", directory.File("precious.core")}, "exists");
  EXPECT_EQ(ReadFile(directory.File("precious.core")), "precious");
  expect_error({trace, "12345", "-o", file}, "no snapshot 12345");
  expect_error({trace, "nowhere", "-o", file}, "goto where?");
  expect_error({trace, "1"}, "-o FILE");
  expect_error({trace, "1", "-o", directory.File("no/such")}, "No such file or directory");
  expect_error({trace, "1", "-o", "/dev/full"}, "exists");
  EXPECT_FALSE(std::filesystem::exists(file));
  const GdbResult gdb =
      RunGdb(trace, absl::Substitute("monitor core $0\nmonitor core\nmonitor core $1\n",
                                     directory.File("precious.core"), directory.File(".hidden")));
  EXPECT_THAT(gdb.text, HasSubstr("precious.core exists"));
  EXPECT_THAT(gdb.text, HasSubstr("to which file?"));
  EXPECT_THAT(gdb.text, HasSubstr("no hidden files"));
  EXPECT_EQ(ReadFile(directory.File("precious.core")), "precious");
}

TEST(CoreTest, OfPython) {
  const TempDir directory;
  const std::string trace = directory.File("trace"), python = "/usr/bin/python3";
  ASSERT_EQ(Record(trace, {python, "-S", "-s", "-c",
                           "import threading, zlib\n"
                           "go = threading.Event()\n"
                           "threads = [threading.Thread(target=go.wait) for _ in range(3)]\n"
                           "for t in threads: t.start()\n"
                           "print(zlib.crc32(b'x' * 10000000))\n"
                           "go.set()\n"
                           "for t in threads: t.join()\n"})
                .Ending(),
            "exit 0");
  ExpectSameStacks(trace, python, "set breakpoint pending on\nbreak crc32_z\ncontinue", 4);
}

TEST(CoreTest, OfSqlite) {
  const std::string sqlite = FindProgram("sqlite3");
  if (sqlite.empty()) GTEST_SKIP() << "sqlite3 is not installed";
  const TempDir directory;
  const std::string trace = directory.File("trace");
  ASSERT_EQ(Record(trace, {sqlite, ":memory:", "create table t(a); insert into t values(1),(2);",
                           "select sum(a) from t;"})
                .Ending(),
            "exit 0");
  ExpectSameStacks(trace, sqlite, "set breakpoint pending on\nbreak sqlite3_step\ncontinue 3", 1);
}

TEST(CoreTest, LldbShowsTheSameFunctions) {
  std::string lldb = FindProgram("lldb");
  if (lldb.empty()) lldb = FindProgram("lldb-14");
  if (lldb.empty()) GTEST_SKIP() << "lldb is not installed";
  const TempDir directory;
  const GdbResult gdb =
      RunGdb(Threads().trace(), absl::Substitute("break round_reached\ncontinue\nmonitor core $0\n"
                                                 "python say('functions', ' '.join(functions()))\n",
                                                 directory.File("core")));
  const ChildResult result = RunProcess(
      {lldb, "-x", "-b", "-c", directory.File("core"), Program("thread_names"), "-o", "bt all"});
  EXPECT_EQ(result.Ending(), "exit 0") << result.err;
  EXPECT_THAT(result.out, HasSubstr("round_reached")) << result.err;
  EXPECT_THAT(result.out, HasSubstr("main"));
  size_t workers = 0;
  for (const absl::string_view line : absl::StrSplit(result.out, '\n')) {
    if (absl::StrContains(line, "thread_names`run")) ++workers;
  }
  EXPECT_EQ(workers, 3u) << result.out;
  EXPECT_EQ(gdb.Answer("functions").substr(0, 18), "round_reached main");
}

}  // namespace
}  // namespace hindsight::e2e
