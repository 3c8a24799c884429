// Running both ways: what stops, where, and what is reported to the client.

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/rsp/hex.h"
#include "server/session/session_client.h"
#include "server/target/fake_target.h"

namespace hindsight {
namespace {

// 401000 inc rax
// 401003 mov [rdi],rax
// 401006 dec rbx
// 401009 jne 401000
// 40100b mov rcx,[rsi]
// 40100e syscall
// 401010 ud2
// 401012 nop
// 401013 hlt
constexpr absl::string_view kLoop =
    "\x48\xff\xc0\x48\x89\x07\x48\xff\xcb\x75\xf5\x48\x8b\x0e\x0f\x05\x0f\x0b\x90\xf4";

class ResumeTest : public testing::Test {
 protected:
  ResumeTest() { Ask("qSupported:multiprocess+;swbreak+;hwbreak+"); }

  std::string Ask(absl::string_view packet) { return client_.Ask(packet); }

  // The part of a stop reply before the thread: "T05watch:404000;".
  std::string Stop(absl::string_view packet) {
    const std::string reply = Ask(packet);
    return reply.substr(0, reply.find("thread:"));
  }

  uint64_t Rip() {
    const std::string bytes = rsp::HexDecode(Ask("p10")).value_or("");
    uint64_t value = 0;
    bytes.copy(reinterpret_cast<char*>(&value), sizeof(value));
    return value;
  }

  FakeTarget target_{kLoop, /*rbx=*/10};
  SessionClient client_{&target_};
};

TEST_F(ResumeTest, OffersActions) { EXPECT_EQ(Ask("vCont?"), "vCont;c;C;s;S;r"); }

TEST_F(ResumeTest, StopRepliesCarryTheRegistersEveryClientAsksFor) {
  EXPECT_EQ(Ask("vCont;s:p1234.1234"),
            "T05thread:p1234.1234;06:0000000000000000;07:0008ff7f00000000;10:0310400000000000;");
}

TEST_F(ResumeTest, StepsForwardThenBackAreWhereTheyBegan) {
  const std::string before = Ask("g");
  for (int i = 0; i < 40; ++i) EXPECT_EQ(Stop("vCont;s:p1234.1234"), "T05");
  EXPECT_EQ(target_.position(), 40u);
  for (int i = 0; i < 40; ++i) EXPECT_EQ(Stop("bs"), "T05");
  EXPECT_EQ(Ask("g"), before);
}

TEST_F(ResumeTest, EndsAreSaidAndSaidAgain) {
  EXPECT_EQ(Stop("bc"), "T05replaylog:begin;");
  EXPECT_EQ(Stop("bs"), "T05replaylog:begin;");
  EXPECT_EQ(Stop("C0"), "T04");  // SIGILL on the way
  EXPECT_EQ(Stop("c"), "T05replaylog:end;");
  EXPECT_EQ(client_.TakeConsole(), "The program exited with code 0.\n");
  EXPECT_EQ(Stop("c"), "T05replaylog:end;");
  EXPECT_EQ(client_.TakeConsole(), "The program exited with code 0.\n");
  EXPECT_EQ(Stop("bs"), "T05");
}

TEST_F(ResumeTest, BreakpointsStopBothWays) {
  Ask("Z0,401006,1");
  EXPECT_EQ(Stop("c"), "T05swbreak:;");
  EXPECT_EQ(target_.position(), 2u);
  // Forward stops at once: stepping off is the client's business.
  EXPECT_EQ(Stop("c"), "T05swbreak:;");
  EXPECT_EQ(target_.position(), 2u);
  EXPECT_EQ(Stop("s"), "T05");
  EXPECT_EQ(Stop("c"), "T05swbreak:;");
  EXPECT_EQ(target_.position(), 6u);
  // Backward begins after it.
  EXPECT_EQ(Stop("bc"), "T05swbreak:;");
  EXPECT_EQ(target_.position(), 2u);
  Ask("z0,401006,1");
  EXPECT_EQ(Stop("bc"), "T05replaylog:begin;");
}

// gdb forgets breakpoints in libraries that were unloaded, and continues where one of them is hit.
TEST_F(ResumeTest, ABreakpointThatTheClientHasForgottenDoesNotHoldItForEver) {
  Ask("Z0,401006,1");
  Ask("Z0,40100b,1");
  EXPECT_EQ(Stop("c"), "T05swbreak:;");
  EXPECT_EQ(Stop("c"), "T05swbreak:;");
  EXPECT_EQ(Stop("c"), "T05swbreak:;");
  EXPECT_EQ(Rip(), 0x40100bu) << "the other one is still there";
  Ask("Z0,401006,1");
  EXPECT_EQ(Stop("bc"), "T05swbreak:;");
  EXPECT_EQ(Rip(), 0x401006u);
}

TEST_F(ResumeTest, HardwareBreakpointsAreSaidToBeSuch) {
  Ask("Z1,401006,1");
  EXPECT_EQ(Stop("c"), "T05hwbreak:;");
}

TEST_F(ResumeTest, ReasonsThatTheClientDoesNotKnowAreNotGiven) {
  Ask("qSupported:multiprocess+");
  Ask("Z0,401006,1");
  EXPECT_EQ(Stop("c"), "T05");
}

TEST_F(ResumeTest, BreakpointsDoNotChangeMemory) {
  const std::string before = Ask("m401000,14");
  Ask("Z0,401006,1");
  EXPECT_EQ(Ask("m401000,14"), before);
}

TEST_F(ResumeTest, WatchpointForwardStopsBehindTheWrite) {
  Ask("Z2,404000,4");
  EXPECT_EQ(Stop("c"), "T05watch:404000;");
  EXPECT_EQ(Rip(), 0x401006u);
  EXPECT_EQ(Ask("m404000,1"), "01");
}

TEST_F(ResumeTest, WatchpointBackwardStopsOnTheWriteWithTheOldValue) {
  Ask("Z1,40100b,1");
  EXPECT_EQ(Stop("c"), "T05hwbreak:;");
  Ask("Z2,404000,1");
  EXPECT_EQ(Stop("bc"), "T05watch:404000;");
  EXPECT_EQ(Rip(), 0x401003u);
  EXPECT_EQ(Ask("m404000,1"), "09");
}

TEST_F(ResumeTest, ReadAndAccessWatchpoints) {
  Ask("Z3,404003,2");
  EXPECT_EQ(Stop("c"), "T05rwatch:404003;");
  EXPECT_EQ(Rip(), 0x40100eu);
  Ask("z3,404003,2");
  Ask("Z4,404000,1000");
  EXPECT_EQ(Stop("bc"), "T05awatch:404000;");
  EXPECT_EQ(Rip(), 0x40100bu);
  EXPECT_EQ(Stop("bc"), "T05awatch:404000;");
  EXPECT_EQ(Rip(), 0x401003u);
}

TEST_F(ResumeTest, ConditionsAreEvaluatedHere) {
  // rax == 5: reg 0; const8 5; equal; end
  EXPECT_EQ(Ask("Z0,401006,1;X7,26000022051327"), "OK");
  EXPECT_EQ(Stop("c"), "T05swbreak:;");
  EXPECT_EQ(Ask("p0"), "0500000000000000");
  EXPECT_EQ(Stop("s"), "T05");
  // At the same address once more replaces it: rax == 2 or rax == 3.
  EXPECT_EQ(Ask("Z0,401006,1;X7,26000022021327X7,26000022031327"), "OK");
  EXPECT_EQ(Stop("bc"), "T05swbreak:;");
  EXPECT_EQ(Ask("p0"), "0300000000000000");
  EXPECT_EQ(Stop("bc"), "T05swbreak:;");
  EXPECT_EQ(Ask("p0"), "0200000000000000");
  EXPECT_EQ(Stop("bc"), "T05replaylog:begin;");
}

TEST_F(ResumeTest, ConditionsReadMemory) {
  // *(char*)0x404000 == 7: const32 404000; ref8; const8 7; equal; end
  Ask("Z0,401006,1;Xa,24004040001722071327");
  EXPECT_EQ(Stop("c"), "T05swbreak:;");
  EXPECT_EQ(Ask("p0"), "0700000000000000");
}

TEST_F(ResumeTest, ConditionThatCannotBeEvaluatedStops) {
  Ask("Z0,401006,1;X5,2201170027");  // ref8 of address 1
  EXPECT_EQ(Stop("c"), "T05swbreak:;");
  EXPECT_EQ(target_.position(), 2u);
}

TEST_F(ResumeTest, UnconditionalBreakpointAtTheSameAddressAlwaysStops) {
  Ask("Z0,401006,1;X3,220027");
  Ask("Z1,401006,1");
  EXPECT_EQ(Stop("c"), "T05swbreak:;");
  EXPECT_EQ(target_.position(), 2u);
}

TEST_F(ResumeTest, RangeStepsUntilOutside) {
  EXPECT_EQ(Stop("vCont;r401000,40100b:p1234.1234"), "T05");
  EXPECT_EQ(Rip(), 0x40100bu);
}

TEST_F(ResumeTest, TheThreadThatStepsDecides) {
  EXPECT_EQ(Stop("vCont;s:p1234.1234;c"), "T05");
  EXPECT_EQ(target_.position(), 1u);
  EXPECT_EQ(Stop("vCont;c:p1234.99;s:p1234.1234"), "T05");
  EXPECT_EQ(target_.position(), 2u);
}

TEST_F(ResumeTest, SignalsStopWithGdbsNumberUnlessPassed) {
  EXPECT_EQ(Stop("c"), "T04");
  EXPECT_EQ(Rip(), 0x401010u);
  EXPECT_TRUE(absl::StartsWith(Ask("?"), "T04thread:"));
  EXPECT_EQ(Stop("S04"), "T05");
  EXPECT_EQ(Stop("bc"), "T04");
  EXPECT_EQ(Ask("QPassSignals:2;4;e"), "OK");
  EXPECT_EQ(Stop("c"), "T05replaylog:end;");
  EXPECT_EQ(Stop("bc"), "T05replaylog:begin;");
  EXPECT_EQ(Ask("QPassSignals:"), "OK");
  EXPECT_EQ(Stop("c"), "T04");
}

TEST_F(ResumeTest, SystemCallsAreCaughtBothWays) {
  EXPECT_EQ(Ask("QCatchSyscalls:1"), "OK");
  EXPECT_EQ(Stop("c"), "T05syscall_entry:a;");
  EXPECT_EQ(Stop("c"), "T04");  // the fake's next instruction raises one
  EXPECT_EQ(Ask("QPassSignals:4"), "OK");
  EXPECT_EQ(Ask("QCatchSyscalls:1;a;b"), "OK");
  EXPECT_EQ(Stop("c"), "T05replaylog:end;");
  EXPECT_EQ(Stop("bc"), "T05syscall_return:a;");
  EXPECT_EQ(Stop("bc"), "T05syscall_entry:a;");
  EXPECT_EQ(Ask("QCatchSyscalls:1;b"), "OK");
  EXPECT_EQ(Stop("c"), "T05replaylog:end;");
  EXPECT_EQ(Ask("QCatchSyscalls:0"), "OK");
  EXPECT_EQ(Stop("bc"), "T05replaylog:begin;");
}

TEST_F(ResumeTest, InterruptEndsARunInBothDirections) {
  target_.endless = true;
  for (const char* packet : {"vCont;c:p1234.-1", "bc"}) {
    client_.Send(packet);
    client_.SendRaw("\x03");
    EXPECT_TRUE(absl::StartsWith(client_.Receive(), "T02thread:")) << packet;
  }
}

// The loop's line, but for its first instruction: at the end of it a step back leads to where it
// was entered last.
TEST_F(ResumeTest, StepBackThroughALineIsOneRun) {
  Ask("Z0,40100b,1");
  Stop("c");
  EXPECT_EQ(Ask("QHindsightBackwardLines:401003,40100b;40100b,401010"), "OK");
  EXPECT_EQ(Stop("bs"), "T05");  // out of the line it was in the first state of
  EXPECT_EQ(Rip(), 0x401009u);
  EXPECT_EQ(Stop("bs"), "T05");
  EXPECT_EQ(Rip(), 0x401003u);
  EXPECT_EQ(Stop("bs"), "T05");
  EXPECT_EQ(Rip(), 0x401000u);
  EXPECT_EQ(Stop("bs"), "T05");  // no line that was announced
  EXPECT_EQ(Rip(), 0x401009u);
  EXPECT_EQ(Ask("QHindsightBackwardLines:"), "OK");
  EXPECT_EQ(Stop("bs"), "T05");
  EXPECT_EQ(Rip(), 0x401006u);
}

// All ten rounds at once, or from the jump on that is said to lead into the line.
TEST_F(ResumeTest, StepBackThroughALoopEndsWhereItWasEntered) {
  Ask("Z0,40100b,1");
  Stop("c");
  Stop("bs");
  EXPECT_EQ(Ask("QHindsightBackwardLines:400ff0,40100b,401000"), "OK");
  EXPECT_EQ(Stop("bs"), "T05");
  EXPECT_EQ(Rip(), 0x401000u);
  EXPECT_EQ(Ask("QHindsightBackwardLines:400ff0,40100b"), "OK");
  EXPECT_EQ(Stop("bs"), "T05replaylog:begin;");
}

TEST_F(ResumeTest, ABreakpointStopsAStepBackThroughALine) {
  Ask("Z0,40100b,1");
  Stop("c");
  Stop("bs");
  Ask("Z0,401003,1");
  EXPECT_EQ(Ask("QHindsightBackwardLines:400ff0,40100b"), "OK");
  EXPECT_EQ(Stop("bs"), "T05swbreak:;");
  EXPECT_EQ(Rip(), 0x401003u);
}

TEST_F(ResumeTest, MalformedLinesAreRefused) {
  for (const char* lines : {"1", "2,1", "1,1", "x,y", "1,2,", "1,2;3", ",;"}) {
    EXPECT_EQ(Ask(absl::StrCat("QHindsightBackwardLines:", lines)), "E16") << lines;
  }
}

// gdb sends one packet for each instruction of a line, or for each change of a value with a
// condition: the interrupt comes between two of them.
TEST_F(ResumeTest, InterruptBetweenRunsStopsTheNextOneWhereItBegins) {
  Ask("vCont;s:p1234.1234");
  const uint64_t pc = Rip();
  for (const char* packet : {"vCont;s:p1234.1234", "vCont;c:p1234.-1", "bs", "bc"}) {
    client_.SendRaw("\x03");
    EXPECT_EQ(Stop(packet), "T02") << packet;
    EXPECT_EQ(Rip(), pc);
  }
  EXPECT_EQ(Stop("bs"), "T05");  // once each
  EXPECT_NE(Rip(), pc);
}

TEST_F(ResumeTest, ClientThatLeavesEndsARun) {
  target_.endless = true;
  client_.Send("c");
  EXPECT_EQ(client_.Close(), SessionEnd::kDisconnected);
}

TEST_F(ResumeTest, DamagedTraceIsToldAndTheSessionLives) {
  target_.resume_error = absl::DataLossError("threads/1/4.seg: bad checksum at byte 0x400");
  EXPECT_EQ(Stop("c"), "T00");
  EXPECT_EQ(client_.TakeConsole(), "hindsight: threads/1/4.seg: bad checksum at byte 0x400\n");
  target_.resume_error = absl::OkStatus();
  EXPECT_EQ(Stop("s"), "T05");
}

TEST_F(ResumeTest, RunGoesSomewhereAndStaysThere) {
  EXPECT_TRUE(absl::StartsWith(Ask(absl::StrCat("vRun;;", rsp::HexEncode("20"))), "T05thread:"));
  EXPECT_EQ(target_.position(), 20u);
  // What gdb sends right after.
  EXPECT_EQ(Stop("vCont;c:p1234.-1"), "T00");
  EXPECT_EQ(target_.position(), 20u);
  EXPECT_EQ(Stop("c"), "T04");
  EXPECT_TRUE(absl::StartsWith(Ask("vRun;"), "T05thread:"));
  EXPECT_EQ(target_.position(), 0u);
  EXPECT_EQ(Stop("c"), "T04");
  EXPECT_EQ(Ask("vRun;;0"), "E16");
}

TEST_F(ResumeTest, RunToNowhereStaysAndSaysWhy) {
  Ask("s");
  EXPECT_TRUE(absl::StartsWith(Ask(absl::StrCat("vRun;;", rsp::HexEncode("99999"))), "T05thread:"));
  EXPECT_EQ(Stop("vCont;c:p1234.-1"), "T00");
  EXPECT_EQ(client_.TakeConsole(), "hindsight: no such position\n");
  EXPECT_EQ(target_.position(), 1u);
}

TEST_F(ResumeTest, AThreadThatIsNotThereDoesNotRun) {
  for (const char* packet :
       {"vCont;s:p1234.99", "vCont;c:p1234.99", "vCont;r401000,40100b:p1234.99", "vCont;s:p99.1234",
        "vCont;s:p1234.99;c:p1234.-1"}) {
    EXPECT_EQ(Ask(packet), "E16") << packet;
  }
  EXPECT_EQ(target_.position(), 0u);
}

TEST_F(ResumeTest, MalformedResumePacketsAreRejected) {
  for (const char* packet :
       {"vCont;", "vCont;x", "vCont;c:", "vCont;c:z", "vCont;r", "vCont;r1", "vCont;r1,", "vCont;C",
        "vCont;cx", "vCont;c;", "C", "Cxy", "QPassSignals:x", "QPassSignals:100", "QCatchSyscalls:",
        "QCatchSyscalls:2", "QCatchSyscalls:1;", "QCatchSyscalls:1;x", "QThreadEvents:2"}) {
    EXPECT_EQ(Ask(packet), "E16") << packet;
  }
  // Not mistakes, only impossible here.
  for (const char* packet : {"c401000", "s401000", "C04;401000"}) EXPECT_EQ(Ask(packet), "");
  EXPECT_EQ(target_.position(), 0u);
}

TEST_F(ResumeTest, MalformedBreakpointsAreRejected) {
  for (const char* packet :
       {"Z", "Z0", "Z0,", "Z0,401000", "Z0,401000,", "Z0,401000,1;", "Z0,401000,1;Y",
        "Z0,401000,1;X", "Z0,401000,1;X1", "Z0,401000,1;X1,", "Z0,401000,1;X2,27",
        "Z0,401000,1;X1,2z", "Z0,401000,1;Xffffffffffffffff,27", "Z0,401000,1;X8000000000000001,27",
        "Z0,401000,1;cmds:0,X1,27", "Z2,404000,0", "Z2,ffffffffffffffff,2", "z0,401000"}) {
    EXPECT_EQ(Ask(packet), "E16") << packet;
  }
  EXPECT_EQ(Ask("Z5,401000,1"), "");
}

}  // namespace
}  // namespace hindsight
