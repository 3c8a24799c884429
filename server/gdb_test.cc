// The real gdb against a FakeTarget.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/gdb_client.h"
#include "server/gdb_commands.h"
#include "server/target/fake_target.h"

namespace hindsight {
namespace {

// 401000 inc rax
// 401003 mov [rdi],rax
// 401006 dec rbx
// 401009 jne 401000
// 40100b call 401012
// 401010 ud2
// 401012 hlt
// 401013 inc rax
// 401016 ret
constexpr absl::string_view kProgram(
    "\x48\xff\xc0\x48\x89\x07\x48\xff\xcb\x75\xf5\xe8\x03\x00\x00\x00\x0f\x0b\xf4\x48\xff\xc0\xc3",
    23);

class GdbTest : public testing::Test {
 protected:
  // What gdb prints when it executes `commands` after connecting.
  std::string Gdb(const std::vector<std::string>& commands) {
    return RunGdb(target_.get(),
                  {.before = commands_before_, .remote = remote_, .commands = commands});
  }

  static void ExpectInOrder(const std::string& output, const std::vector<std::string>& texts) {
    EXPECT_EQ(FirstOutOfOrder(output, texts), "") << output;
  }

  std::unique_ptr<FakeTarget> target_ = std::make_unique<FakeTarget>(kProgram, /*rbx=*/10);
  std::string remote_ = "remote";
  std::vector<std::string> commands_before_;
};

TEST_F(GdbTest, StepsBothWaysAndMeetsTheEnds) {
  const std::string output =
      Gdb({"echo connected\\n", "x/i $pc", "stepi 5", "x/i $pc", "reverse-stepi 4", "x/i $pc",
           "reverse-stepi 2", "echo begin?\\n", "continue", "p $_siginfo.si_signo", "continue",
           "echo end?\\n", "reverse-stepi", "x/i $pc"});
  ExpectInOrder(
      output,
      {"connected", "=> 0x401000:\tinc    %rax", "=> 0x401003:\tmov    %rax,(%rdi)",
       "=> 0x401003:\tmov    %rax,(%rdi)", "No more reverse-execution history.", "begin?", "SIGILL",
       "= 4", "The program exited with code 0.", "No more reverse-execution history.", "end?"});
}

TEST_F(GdbTest, WatchpointBackwardStopsOnTheWritingInstructionWithTheOldValue) {
  const std::string output =
      Gdb({"break *0x40100b", "continue", "watch *(long*)0x404000", "reverse-continue", "x/i $pc",
           "p *(long*)0x404000", "reverse-continue", "x/i $pc", "continue"});
  ExpectInOrder(output,
                {"Breakpoint 1, 0x000000000040100b", "Hardware watchpoint 2", "Old value = 10",
                 "New value = 9", "=> 0x401003", "$1 = 9", "Old value = 9", "New value = 8",
                 "=> 0x401003", "Old value = 8", "New value = 9"});
}

TEST_F(GdbTest, ConditionsAreLeftToTheServer) {
  const std::string output =
      Gdb({"break *0x401006 if $rax == 7 && *(char*)0x404000 == 7", "set debug remote 1",
           "continue", "set debug remote 0", "p $rax", "reverse-continue"});
  EXPECT_TRUE(absl::StrContains(output, "$Z0,401006,1;X")) << output;
  // One resume, however often the condition was false.
  EXPECT_EQ(output.find("$vCont;c"), output.rfind("$vCont;c")) << output;
  ExpectInOrder(output, {"Breakpoint 1, ", "0x0000000000401006", "$1 = 7",
                         "No more reverse-execution history."});
}

TEST_F(GdbTest, CallsAFunctionWithoutATrace) {
  const std::string output = Gdb({"stepi 7", "p $rax", "p ((long (*)())0x401013)()", "p $rax",
                                  "x/i $pc", "p *(long*)($rsp - 8)", "reverse-stepi", "x/i $pc"});
  ExpectInOrder(output, {"$1 = 2", "$2 = 1", "$3 = 2", "=> 0x401009", "$4 = 0", "=> 0x401006"});
}

TEST_F(GdbTest, ShowsRegistersThreadsAndAuxiliaryVector) {
  const std::string output =
      Gdb({"info registers rip eflags fs_base orig_rax", "p $st0", "p $xmm3.uint128", "p $fctrl",
           "info threads", "info all-registers mxcsr"});
  ExpectInOrder(output, {"0x401000", "[ IF ]", "fs_base", "orig_rax", "$1 = 0", "$2 = 0",
                         "$3 = 895", "Thread 4660.4660", "[ IM DM ZM OM UM PM ]"});
}

TEST_F(GdbTest, KnowsTheVectorRegisters) {
  target_ = std::make_unique<FakeTarget>(absl::string_view("\x90\xf4"),
                                         FakeOptions{.registers = RegisterSet::kAvx512});
  const std::string output =
      Gdb({"p $ymm3.v8_int32", "p $zmm3.v16_int32", "p $k1", "p $xmm17.uint128",
           "p $ymm18.v4_int64", "p $zmm31.v8_int64", "info all-registers k7", "p $rip"});
  ExpectInOrder(output, {"$1 = {0, 0, 0, 0, 0, 0, 0, 0}", "$2 = {0 <repeats 16 times>}", "$3 = 0",
                         "$4 = 0", "$5 = {0, 0, 0, 0}", "$6 = {0, 0, 0, 0, 0, 0, 0, 0}", "k7",
                         "$7 = (void (*)()) 0x401000"});
  EXPECT_FALSE(absl::StrContains(output, "target description")) << output;
}

TEST_F(GdbTest, CatchesSystemCallsByTheirNumber) {
  target_ = std::make_unique<FakeTarget>(absl::string_view("\x90\x0f\x05\x90\xf4", 5));
  const std::string output =
      Gdb({"catch syscall read", "continue", "continue", "continue", "reverse-continue"});
  ExpectInOrder(output, {"Catchpoint 1 (call to syscall read)", "0x0000000000401001",
                         "Catchpoint 1 (returned from syscall read)", "0x0000000000401003",
                         "No more reverse-execution history.",
                         "Catchpoint 1 (returned from syscall read)", "0x0000000000401003"});
}

TEST_F(GdbTest, TheCommandFileJumpsAndRefreshesGdb) {
  const char* directory = std::getenv("TEST_TMPDIR");
  const std::string path =
      absl::StrCat(directory != nullptr ? directory : "/tmp", "/commands.", getpid(), ".py");
  std::ofstream(path) << GdbCommands();
  commands_before_ = {"source " + path};
  const std::string output = Gdb({"p $rax", "display/i $pc", "hindsight goto 5", "p $rax",
                                  "p *(long*)0x404000", "hindsight when", "hindsight end",
                                  "hindsight start", "p $rax", "stepi", "hindsight goto nowhere"});
  std::remove(path.c_str());
  ExpectInOrder(output, {"$1 = 0", "#0  0x0000000000401003", "$2 = 2", "$3 = 1", "position 5",
                         "#0  0x0000000000401012", "#0  0x0000000000401000", "$4 = 0",
                         "0x0000000000401003", "no such position"});
}

TEST_F(GdbTest, RunGoesToAPosition) {
  remote_ = "extended-remote";
  const std::string output = Gdb({"run 5", "p $rax", "run nowhere", "stepi", "starti 9", "p $rax"});
  ExpectInOrder(output, {"$1 = 2", "no such position", "Program stopped.", "$2 = 3"});
}

}  // namespace
}  // namespace hindsight
