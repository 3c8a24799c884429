// The real gdb against a FakeTarget of several threads.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "server/gdb_client.h"
#include "server/target/fake_target.h"

namespace hindsight {
namespace {

std::string Gdb(const std::vector<std::string>& commands) {
  FakeTarget target(FakeTarget::kTwoThreads, FakeOptions{.rbx = 5, .entries = {0x401013}});
  return RunGdb(&target, {.commands = commands});
}

TEST(GdbThreadsTest, ThreadsComeAndGoBothWays) {
  const std::string output =
      Gdb({"info threads", "stepi 12", "info threads", "echo back\\n", "reverse-continue",
           "info threads", "echo end\\n", "continue", "info threads"});
  EXPECT_EQ(FirstOutOfOrder(output, {"* 1    Thread 4660.4660", "[New Thread 4660.4661]",
                                     "* 1    Thread 4660.4660", "  2    Thread 4660.4661", "back",
                                     "No more reverse-execution history", "* 1    Thread 4660.4660",
                                     "end", "No more reverse-execution history", "4660.4660"}),
            "")
      << output;
  const std::string at_begin =
      output.substr(output.find("back\n"), output.find("end\n") - output.find("back\n"));
  EXPECT_FALSE(absl::StrContains(at_begin, "  2    Thread")) << output;
  EXPECT_FALSE(absl::StrContains(output.substr(output.rfind("No more")), "4660.4661 \"")) << output;
}

TEST(GdbThreadsTest, TheSelectedThreadSteps) {
  const std::string output =
      Gdb({"stepi 20", "thread 2", "x/i $pc", "stepi", "x/i $pc", "info threads", "reverse-stepi",
           "x/i $pc", "thread 1", "p $rip", "reverse-stepi", "p $rip", "stepi", "p $rip"});
  EXPECT_EQ(FirstOutOfOrder(output, {"Switching to thread 2", "=> 0x401013", "=> 0x401016",
                                     "* 2    Thread 4660.4661", "=> 0x401013",
                                     "Switching to thread 1", "$1 = ", "$2 = ", "$3 = "}),
            "")
      << output;
}

// gdb first moves the other thread off its breakpoint and only then the one that the user steps.
TEST(GdbThreadsTest, TheSelectedThreadStepsThoughAnotherIsAtABreakpoint) {
  const std::string output = Gdb({"break *0x401016", "continue", "thread 1", "x/i $pc",
                                  "reverse-stepi", "x/i $pc", "reverse-stepi", "x/i $pc"});
  EXPECT_EQ(FirstOutOfOrder(output, {"Thread 2 \"fake<&>\" hit Breakpoint 1", "=> 0x40100d",
                                     "=> 0x40100a", "=> 0x401007"}),
            "")
      << output;
}

TEST(GdbThreadsTest, WatchpointTellsWhichThreadWrote) {
  const std::string output = Gdb({"watch *(long*)0x404000", "continue", "continue", "continue",
                                  "reverse-continue", "reverse-continue", "info threads"});
  EXPECT_EQ(
      FirstOutOfOrder(output, {"Thread 1 \"fake<&>\" hit Hardware watchpoint", "New value = 1",
                               "Thread 1 \"fake<&>\" hit Hardware watchpoint", "New value = 2"}),
      "")
      << output;
}

TEST(GdbThreadsTest, BreakpointOfOneThread) {
  const std::string output =
      Gdb({"stepi 12", "break *0x401016 thread 2", "break *0x40100a thread 2", "continue",
           "x/i $pc", "continue", "x/i $pc", "reverse-continue", "x/i $pc"});
  EXPECT_EQ(FirstOutOfOrder(output, {"hit Breakpoint 1", "=> 0x401016", "hit Breakpoint 1",
                                     "=> 0x401016", "hit Breakpoint 1", "=> 0x401016"}),
            "")
      << output;
  EXPECT_FALSE(absl::StrContains(output, "hit Breakpoint 2")) << output;
}

TEST(GdbThreadsTest, SchedulerLockingHidesTheOthers) {
  const std::string output =
      Gdb({"stepi 12", "break *0x401016", "set scheduler-locking on", "stepi 9", "x/i $pc",
           "set scheduler-locking off", "reverse-continue", "x/i $pc"});
  EXPECT_EQ(output.find("hit Breakpoint 1"), output.rfind("hit Breakpoint 1")) << output;
  EXPECT_EQ(FirstOutOfOrder(output, {"Thread 2 \"fake<&>\" hit Breakpoint 1", "=> 0x401016"}), "")
      << output;
}

// 401000 mov eax,57 or 58; syscall     fork or vfork
// 401007 inc rax; nop; hlt
std::string GdbForking(char number, const std::vector<std::string>& commands) {
  std::string code("\xb8\x39\x00\x00\x00\x0f\x05\x48\xff\xc0\x90\xf4", 12);
  code[1] = number;
  FakeTarget target(code, FakeOptions{.fork_calls = true});
  return RunGdb(&target, {.commands = commands});
}

TEST(GdbThreadsTest, ForksAreCaughtBothWays) {
  const std::string output =
      GdbForking(57, {"break *0x401000", "catch fork", "break *0x40100a", "continue", "x/i $pc",
                      "continue", "x/i $pc", "reverse-continue", "x/i $pc", "reverse-continue",
                      "x/i $pc", "continue", "x/i $pc"});
  EXPECT_EQ(
      FirstOutOfOrder(output, {"Catchpoint 2 (forked process 8192)", "=> 0x401007",
                               "[Detaching after fork", "Breakpoint 3", "=> 0x40100a",
                               "Catchpoint 2 (forked process 8192)", "=> 0x401005", "Breakpoint 1",
                               "=> 0x401000", "Catchpoint 2 (forked process 8192)", "=> 0x401007"}),
      "")
      << output;
}

TEST(GdbThreadsTest, BreakpointsOutliveAVfork) {
  const std::string output =
      GdbForking(58, {"break *0x401000", "catch vfork", "break *0x40100a", "continue", "x/i $pc",
                      "continue", "x/i $pc", "reverse-continue", "x/i $pc", "reverse-continue",
                      "x/i $pc", "delete 2", "continue", "x/i $pc"});
  EXPECT_EQ(FirstOutOfOrder(output, {"Catchpoint 2 (vforked process 8192)", "=> 0x401007",
                                     "[Detaching after vfork", "Breakpoint 3", "=> 0x40100a",
                                     "Catchpoint 2 (vforked process 8192)", "=> 0x401005",
                                     "Breakpoint 1", "=> 0x401000", "Breakpoint 3", "=> 0x40100a"}),
            "")
      << output;
}

}  // namespace
}  // namespace hindsight
