// Everything that gdb shows of a live process it shows of a recorded one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "tests/harness/gdb.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string& Steps() {
  static const Recorded* recorded = new Recorded({Program("steps"), "an argument"});
  return recorded->trace();
}

const std::string& ThreadLocal() {
  static const Recorded* recorded = new Recorded({Program("thread_local")});
  return recorded->trace();
}

TEST(GdbInspectionTest, SharedLibraries) {
  const GdbResult gdb = RunGdb(Steps(), R"(
break main
continue
info sharedlibrary
python say("printf", gdb.solib_name(int(gdb.parse_and_eval("(unsigned long)&printf"))))
)");
  EXPECT_THAT(gdb.text, ContainsRegex("0x[0-9a-f]+ +0x[0-9a-f]+ +Yes.*/ld-linux-x86-64.so.2"));
  EXPECT_THAT(gdb.text, ContainsRegex("0x[0-9a-f]+ +0x[0-9a-f]+ +Yes.*/libc.so.6"));
  EXPECT_THAT(gdb.Answer("printf"), HasSubstr("libc.so.6"));
}

TEST(GdbInspectionTest, AuxiliaryVector) {
  const GdbResult gdb = RunGdb(Steps(), "info auxv\n");
  EXPECT_THAT(gdb.text, ContainsRegex("AT_PAGESZ +System page size +4096"));
  EXPECT_THAT(gdb.text, ContainsRegex("AT_EXECFN +.*tests/programs/steps\""));
  EXPECT_THAT(gdb.text, ContainsRegex("AT_ENTRY"));
}

TEST(GdbInspectionTest, ProcessMappings) {
  const GdbResult gdb = RunGdb(Steps(), "break main\ncontinue\ninfo proc mappings\n");
  EXPECT_THAT(gdb.text, ContainsRegex("0x[0-9a-f]+ +0x[0-9a-f]+ .*r-xp.*tests/programs/steps"));
  EXPECT_THAT(gdb.text, ContainsRegex("rw-p.*\\[stack\\]"));
  EXPECT_THAT(gdb.text, HasSubstr("libc.so.6"));
}

// The map is that of the position: libc is not yet there at the start.
TEST(GdbInspectionTest, ProcessMappingsFollowThePosition) {
  const GdbResult gdb = RunGdb(Steps(), R"(
python
def mapped(): return "libc.so.6" in gdb.execute("info proc mappings", to_string=True)
say("start", mapped())
gdb.execute("break main")
run("continue")
say("main", mapped())
run("reverse-continue")
say("back", mapped())
end
)");
  EXPECT_EQ(gdb.Answer("start"), "False") << gdb.text;
  EXPECT_EQ(gdb.Answer("main"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("back"), "False") << gdb.text;
}

TEST(GdbInspectionTest, CommandLineAndExecutable) {
  const GdbResult gdb = RunGdb(Steps(), "break main\ncontinue\ninfo proc all\n");
  EXPECT_THAT(gdb.text, ContainsRegex("cmdline = '.*tests/programs/steps an argument'"));
  EXPECT_THAT(gdb.text, ContainsRegex("exe = '.*tests/programs/steps'"));
  EXPECT_THAT(gdb.text, ContainsRegex("cwd = '/.*'"));
}

TEST(GdbInspectionTest, ArgumentsEnvironmentAndBacktrace) {
  const GdbResult gdb = RunGdb(Steps(), R"(
break triple
continue
python say("value", value("value"))
backtrace
python say("callers", caller() + " " + gdb.selected_frame().older().older().name())
info source
)");
  EXPECT_EQ(gdb.Answer("value"), "0") << gdb.text;
  EXPECT_EQ(gdb.Answer("callers"), "accumulate main") << gdb.text;
  EXPECT_THAT(gdb.text, ContainsRegex("#1 .* in accumulate \\(rounds=10\\)"));
}

TEST(GdbInspectionTest, ErrnoAndThreadLocalVariables) {
  const GdbResult gdb =
      RunGdb(ThreadLocal(), absl::Substitute(R"(
break main
continue
python say("in_thread before", value("in_thread"))
break thread_local.c:$0
continue
python say("in_thread", value("in_thread"))
python say("local_text", value("local_text"))
python
# Its type is in libc's debugging information, which few machines have.
try: say("errno", value("errno"))
except gdb.error: say("errno", value("(int)errno"))
end
)",
                                             LineOf("thread_local.c", "// errno is set")));
  EXPECT_EQ(gdb.Answer("in_thread before"), "5") << gdb.text;
  EXPECT_EQ(gdb.Answer("in_thread"), "7") << gdb.text;
  EXPECT_THAT(gdb.Answer("local_text"), HasSubstr("\"thread\\000")) << gdb.text;
  EXPECT_EQ(gdb.Answer("errno"), "2") << gdb.text;
}

TEST(GdbInspectionTest, SignalInformation) {
  const Recorded recorded({Program("die_by_segv")});
  const GdbResult gdb = RunGdb(recorded.trace(), R"(
continue
python say("signal", value("$_siginfo.si_signo"))
python say("code", value("$_siginfo.si_code"))
python say("address", value("$_siginfo._sifields._sigfault.si_addr"))
)");
  EXPECT_EQ(gdb.Answer("signal"), "11") << gdb.text;
  EXPECT_EQ(gdb.Answer("code"), "1") << gdb.text;
  EXPECT_EQ(gdb.Answer("address"), "0x10") << gdb.text;
}

TEST(GdbInspectionTest, SignalsStopInBothDirections) {
  const Recorded recorded({Program("alarms")});
  const GdbResult gdb = RunGdb(recorded.trace(), R"(
handle SIGALRM stop print pass
break on_alarm
python
say("first", run("continue"))
say("handler", run("continue"))
say("caller", "signal handler called" in gdb.execute("backtrace", to_string=True))
say("back", run("reverse-continue"))
end
delete
handle SIGALRM nostop noprint pass
handle SIGUSR1 stop print pass
python
say("user", run("continue"))
say("number", value("$_siginfo.si_signo"))
end
)");
  EXPECT_EQ(gdb.Answer("first"), "signal SIGALRM") << gdb.text;
  EXPECT_EQ(gdb.Answer("handler"), "breakpoint 1") << gdb.text;
  EXPECT_EQ(gdb.Answer("caller"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("back"), "signal SIGALRM") << gdb.text;
  EXPECT_EQ(gdb.Answer("user"), "signal SIGUSR1") << gdb.text;
  EXPECT_EQ(gdb.Answer("number"), "10") << gdb.text;
}

// The registers where a signal hit, seen from its handler through the kernel's frame.
TEST(GdbInspectionTest, BacktraceThroughASignalFrame) {
  const Recorded recorded({Program("alarms")});
  const GdbResult gdb = RunGdb(recorded.trace(), R"(
handle SIGALRM nostop noprint pass
break on_alarm
continue
backtrace
python say("outer", gdb.selected_frame().older().older().name())
finish
)");
  EXPECT_EQ(gdb.Answer("outer"), "main") << gdb.text;
}

TEST(GdbInspectionTest, CoreFile) {
  const TempDir directory;
  const std::string core = directory.File("core");
  const GdbResult gdb =
      RunGdb(Steps(), absl::StrCat("break triple if value == 4\ncontinue\ngcore ", core, "\n"));
  ASSERT_TRUE(std::filesystem::exists(core)) << gdb.text;
  const ChildResult opened = RunProcess({"gdb", "-nx", "-q", "-batch", "-ex", "backtrace", "-ex",
                                         "print counter", Program("steps"), core});
  EXPECT_THAT(opened.out, ContainsRegex("#0 .*triple \\(value=4\\)")) << opened.err;
  EXPECT_THAT(opened.out, ContainsRegex("#1 .*accumulate \\(rounds=10\\)"));
  EXPECT_THAT(opened.out, HasSubstr("$1 = 40")) << opened.err;
}

// Memory the program had and never touched, or that is not there at all, is never made up.
TEST(GdbInspectionTest, UnknownMemoryCannotBeRead) {
  const GdbResult gdb = TryGdb(Steps(), "break main\ncontinue\nx/x 0x10\n");
  EXPECT_THAT(gdb.text, HasSubstr("Cannot access memory at address 0x10"));
}

TEST(GdbInspectionTest, FunctionsOfTheProgramCanBeCalled) {
  const GdbResult gdb = RunGdb(Steps(), R"(
break triple if value == 5
continue
python
before = (all_registers(), when())
say("call", value('triple(14)'))
say("string", value('(int)strlen("seven..")'))
say("unchanged", (all_registers(), when()) == before)
end
delete
finish
python say("finished", value("$"))
)");
  EXPECT_EQ(gdb.Answer("call"), "42") << gdb.text;
  EXPECT_EQ(gdb.Answer("string"), "7") << gdb.text;
  EXPECT_EQ(gdb.Answer("unchanged"), "True") << gdb.text;
  EXPECT_EQ(gdb.Answer("finished"), "15") << gdb.text;
}

TEST(GdbInspectionTest, SystemCallsAreCaught) {
  const GdbResult gdb = RunGdb(Steps(), R"(
catch syscall write
python
say("entry", run("continue"))
say("number", value("$orig_rax"))
say("return", run("continue"))
say("result", value("$rax"))
say("end", run("continue"))
end
)");
  EXPECT_EQ(gdb.Answer("entry"), "breakpoint 1") << gdb.text;
  EXPECT_EQ(gdb.Answer("number"), "1") << gdb.text;
  EXPECT_EQ(gdb.Answer("return"), "breakpoint 1") << gdb.text;
  EXPECT_EQ(gdb.Answer("result"), "28") << gdb.text;
}

// The trace carries what it needs: the program may be gone.
TEST(GdbInspectionTest, WorksWithoutTheProgramsFiles) {
  const TempDir directory;
  const std::string copy = directory.File("copy_of_steps");
  std::filesystem::copy_file(Program("steps"), copy);
  const std::string trace = directory.File("trace");
  EXPECT_EQ(Record(trace, {copy}).Ending(), "exit 0");
  std::filesystem::remove(copy);
  const GdbResult gdb = RunGdb(trace, R"(
break triple
continue
python say("at", "%s from %s" % (function(), caller()))
)");
  EXPECT_EQ(gdb.Answer("at"), "triple from accumulate") << gdb.text;
}

}  // namespace
}  // namespace hindsight::e2e
