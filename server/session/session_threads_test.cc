// Several threads, and processes that are announced: what a session says of them.

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/rsp/hex.h"
#include "server/session/session_client.h"
#include "server/target/fake_target.h"

namespace hindsight {
namespace {

constexpr char kOffers[] =
    "qSupported:multiprocess+;swbreak+;fork-events+;vfork-events+;QThreadEvents+";

class ThreadsTest : public testing::Test {
 protected:
  explicit ThreadsTest(absl::string_view code = FakeTarget::kTwoThreads,
                       const FakeOptions& options = {.rbx = 3, .entries = {0x401013}})
      : target_(code, options), client_(&target_) {
    Ask(kOffers);
  }

  std::string Ask(absl::string_view packet) { return client_.Ask(packet); }

  // A stop reply up to and with its thread: "T05swbreak:;thread:p1234.1235;".
  std::string Stop(absl::string_view packet) {
    const std::string reply = Ask(packet);
    return reply.substr(0, reply.find(';', reply.find("thread:")) + 1);
  }

  uint64_t Rip() {
    const std::string bytes = rsp::HexDecode(Ask("p10")).value_or("");
    uint64_t value = 0;
    bytes.copy(reinterpret_cast<char*>(&value), sizeof(value));
    return value;
  }

  FakeTarget target_;
  SessionClient client_;
};

TEST_F(ThreadsTest, AreListedWhileTheyLive) {
  EXPECT_EQ(Ask("qfThreadInfo"), "mp1234.1234");
  Ask("vRun;;34");
  EXPECT_EQ(Ask("qfThreadInfo"), "mp1234.1234,p1234.1235");
  EXPECT_EQ(Ask("qsThreadInfo"), "l");
  EXPECT_EQ(Ask("Tp1234.1235"), "OK");
  const std::string xml = Ask("qXfer:threads:read::0,1000");
  EXPECT_TRUE(absl::StrContains(xml, "<thread id=\"p1234.1234\" name=\"fake&lt;&amp;&gt;\"/>"));
  EXPECT_TRUE(
      absl::StrContains(xml, "<thread id=\"p1234.1235\" name=\"fake&lt;&amp;&gt;\" core=\"1\"/>"));
  Ask("vRun;;656e64");  // end
  EXPECT_EQ(Ask("qfThreadInfo"), "mp1234.1234");
  EXPECT_EQ(Ask("Tp1234.1235"), "E16");
  EXPECT_EQ(Ask("Hgp1234.1235"), "E16");
}

TEST_F(ThreadsTest, HaveRegistersOfTheirOwn) {
  Ask("vRun;;34");
  EXPECT_EQ(Ask("Hgp1234.1235"), "OK");
  EXPECT_EQ(Rip(), 0x401013u);
  EXPECT_EQ(Ask("Hgp1234.1234"), "OK");
  EXPECT_EQ(Rip(), target_.pc(0));
  EXPECT_EQ(Ask("qGetTLSAddr:p1234.1235,10,2"), "21010");
}

TEST_F(ThreadsTest, OnlyTheThreadNamedSteps) {
  Ask("vRun;;34");
  EXPECT_EQ(Stop("vCont;s:p1234.1235;c:p1234.-1"), "T05thread:p1234.1235;");
  EXPECT_EQ(Rip(), 0x401016u) << "the thread of the stop is selected";
  EXPECT_EQ(Stop("vCont;s:p1234.1235;c"), "T05thread:p1234.1235;");
  EXPECT_EQ(Rip(), 0x401019u);
  EXPECT_EQ(Stop("vCont;s:p1234.1234"), "T05thread:p1234.1234;");
}

TEST_F(ThreadsTest, AnyThreadStopsUnlessOneAloneIsResumed) {
  Ask("Z0,401016,1");
  EXPECT_EQ(Stop("vCont;c:p1234.-1"), "T05swbreak:;thread:p1234.1235;");
  Ask("vRun;;34");
  EXPECT_EQ(Stop("vCont;c"), "T00thread:p1234.1235;");  // gdb continues after each run
  EXPECT_EQ(Stop("vCont;c:p1234.1234"), "T05replaylog:end;thread:p1234.1234;");
  Ask("Hcp1234.1234");
  EXPECT_EQ(Stop("bc"), "T05replaylog:begin;thread:p1234.1234;");
  EXPECT_EQ(Stop("c"), "T05replaylog:end;thread:p1234.1234;");
  Ask("Hc-1");
  EXPECT_EQ(Stop("bc"), "T05swbreak:;thread:p1234.1235;");
}

TEST_F(ThreadsTest, StepsBackTheThreadSpokenOfLast) {
  Ask("vRun;;3230");
  Ask("Hcp1234.0");
  Ask("Hgp1234.1235");
  EXPECT_EQ(Stop("bs"), "T05thread:p1234.1235;");
  EXPECT_EQ(Stop("bs"), "T05thread:p1234.1235;");
  // gdb asks whether a thread lives before it goes on stepping it.
  Ask("Tp1234.1234");
  EXPECT_EQ(Stop("bs"), "T05thread:p1234.1234;");
  EXPECT_EQ(Stop("bs"), "T05thread:p1234.1234;");
  Ask("Hcp1234.1235");
  EXPECT_EQ(Stop("bs"), "T05thread:p1234.1235;");
}

TEST_F(ThreadsTest, EndsOfAThreadEndItsSteps) {
  Ask("vRun;;34");
  Ask("Hgp1234.1235");
  EXPECT_EQ(Stop("bs"), "T05replaylog:begin;thread:p1234.1235;");
  EXPECT_EQ(target_.position(), 4u) << "and move nothing";
}

TEST_F(ThreadsTest, StepsBackPastAThreadsBeginningLeaveIt) {
  Ask("vRun;;34");
  EXPECT_EQ(Ask("qfThreadInfo"), "mp1234.1234,p1234.1235");
  EXPECT_EQ(Stop("bc"), "T05replaylog:begin;thread:p1234.1234;");
  EXPECT_EQ(Ask("qfThreadInfo"), "mp1234.1234");
}

TEST_F(ThreadsTest, EventsOnDemand) {
  EXPECT_EQ(Ask("QThreadEvents:1"), "OK");
  EXPECT_EQ(Stop("vCont;c"), "T05create:;thread:p1234.1235;");
  EXPECT_EQ(Ask("vCont;c"), "w00;p1234.1235");
  EXPECT_EQ(Ask("QThreadEvents:0"), "OK");
  EXPECT_EQ(Stop("bc"), "T05replaylog:begin;thread:p1234.1234;");
}

TEST_F(ThreadsTest, LldbHearsOfAllWithEachStop) {
  EXPECT_EQ(Ask("QListThreadsInStopReply"), "OK");
  Ask("vRun;;34");
  const std::string reply = Ask("vCont;s:p1234.1235");
  EXPECT_TRUE(absl::StrContains(
      reply, "threads:p1234.1234,p1234.1235;thread-pcs:" +
                 absl::StrCat(absl::Hex(target_.pc(0)), ",", absl::Hex(target_.pc(1))) + ";"))
      << reply;
}

TEST_F(ThreadsTest, FunctionsAreCalledInTheSelectedThread) {
  Ask("vRun;;34");
  Ask("Hgp1234.1235");
  EXPECT_EQ(Ask("P0=2a00000000000000"), "OK");
  EXPECT_EQ(Ask("p0"), "2a00000000000000");
  EXPECT_EQ(Stop("vCont;s:p1234.1235"), "T05thread:p1234.1235;");
  EXPECT_EQ(Ask("p0"), "2b00000000000000");
}

// gdb first steps the thread that it stopped in off its breakpoint, then resumes "all".
TEST_F(ThreadsTest, AFunctionCalledGoesOnInItsThreadThoughAnotherOneSteps) {
  Ask("vRun;;34");
  Ask("Hgp1234.1234");
  Ask("P0=2a00000000000000");
  Ask("P10=1310400000000000");
  Ask("Z0,40101c,1");
  EXPECT_EQ(Stop("vCont;s:p1234.1235"), "T05thread:p1234.1235;");
  EXPECT_EQ(Stop("vCont;c:p1234.-1"), "T05swbreak:;thread:p1234.1234;");
  EXPECT_EQ(Ask("p0"), "2b00000000000000");
}

TEST_F(ThreadsTest, AThreadSteppedOffItsBreakpointInACallDoesNotStopThereAgain) {
  Ask("Z0,401013,1");
  EXPECT_EQ(Stop("vCont;c"), "T05swbreak:;thread:p1234.1235;");
  const size_t first = target_.position();
  Ask("Hgp1234.1234");
  const std::string before = Ask("g");
  Ask("P0=2a00000000000000");
  EXPECT_EQ(Stop("vCont;s:p1234.1235"), "T05thread:p1234.1235;");
  EXPECT_EQ(Stop("vCont;c:p1234.-1"), "T05replaylog:end;thread:p1234.1234;");
  Ask("G" + before);
  EXPECT_FALSE(target_.InDiversion());
  EXPECT_EQ(Stop("vCont;c"), "T05swbreak:;thread:p1234.1235;") << "the next round";
  EXPECT_GT(target_.position(), first);
  EXPECT_EQ(Stop("bc"), "T05swbreak:;thread:p1234.1235;");
  EXPECT_EQ(Stop("vCont;c"), "T05swbreak:;thread:p1234.1235;") << "who does not step off";
}

TEST_F(ThreadsTest, ACallWithinACallEndsFirst) {
  Ask("vRun;;34");
  const std::string first_before = (Ask("Hgp1234.1234"), Ask("p0"));
  Ask("P0=2a00000000000000");
  const std::string second_before = (Ask("Hgp1234.1235"), Ask("p0"));
  Ask("P0=2b00000000000000");
  Ask("P0=" + second_before);
  EXPECT_TRUE(target_.InDiversion()) << "the first one is not done";
  EXPECT_EQ(Stop("vCont;c:p1234.-1"), "T05replaylog:end;thread:p1234.1234;");
  Ask("vRun;;34");
  Ask("Hgp1234.1234");
  Ask("P0=2a00000000000000");
  Ask("Hgp1234.1235");
  Ask("P0=2b00000000000000");
  Ask("P0=" + second_before);
  Ask("Hgp1234.1234");
  Ask("P0=" + first_before);
  EXPECT_FALSE(target_.InDiversion());
}

TEST_F(ThreadsTest, SiginfoIsThatOfTheThread) {
  Ask("vRun;;34");
  Ask("Hgp1234.1235");
  EXPECT_EQ(Ask("qXfer:siginfo:read::14,1"), "m\x35");
  Ask("Hgp1234.1234");
  EXPECT_EQ(Ask("qXfer:siginfo:read::0,100").substr(21, 1), "\x34");
}

// 401000 mov eax,57 (or 58); syscall     fork (or vfork)
// 401007 inc rax; nop; hlt
constexpr absl::string_view kFork("\xb8\x39\x00\x00\x00\x0f\x05\x48\xff\xc0\x90\xf4", 12);
constexpr absl::string_view kVfork("\xb8\x3a\x00\x00\x00\x0f\x05\x48\xff\xc0\x90\xf4", 12);

class ForkTest : public ThreadsTest {
 protected:
  ForkTest() : ThreadsTest(kFork, {.fork_calls = true}) {}
};

class VforkTest : public ThreadsTest {
 protected:
  VforkTest() : ThreadsTest(kVfork, {.fork_calls = true}) {}
};

TEST_F(ForkTest, IsReportedBehindTheCallAndGoingBackAtIt) {
  EXPECT_EQ(Stop("vCont;c"), "T05fork:p2000.2000;thread:p1234.1234;");
  EXPECT_EQ(Rip(), 0x401007u);
  EXPECT_EQ(Stop("vCont;c"), "T05replaylog:end;thread:p1234.1234;");
  EXPECT_EQ(Stop("bc"), "T05fork:p2000.2000;thread:p1234.1234;");
  EXPECT_EQ(Rip(), 0x401005u);
}

TEST_F(ForkTest, IsNotReportedToThoseWhoDoNotAsk) {
  Ask("qSupported:multiprocess+");
  EXPECT_EQ(Stop("vCont;c"), "T05replaylog:end;thread:p1234.1234;");
}

TEST_F(ForkTest, TheChildIsLetGo) {
  Ask("Z0,40100a,1");
  Stop("vCont;c");
  // What gdb does to the child before: it takes out the breakpoints, but only the child's.
  EXPECT_EQ(Ask("Hgp2000.2000"), "OK");
  EXPECT_EQ(Ask("z0,40100a,1"), "OK");
  EXPECT_EQ(Ask("D;2000"), "OK");
  EXPECT_EQ(Ask("Hgp1234.1234"), "OK");
  EXPECT_EQ(Stop("vCont;c"), "T05swbreak:;thread:p1234.1234;");
}

TEST_F(ForkTest, NothingIsKnownOfTheChildHere) {
  Stop("vCont;c");
  EXPECT_EQ(Ask("Hgp2000.2000"), "OK");
  EXPECT_EQ(Ask("p10"), "xxxxxxxxxxxxxxxx");
  EXPECT_EQ(Ask("m401000,8"), "E0e");
  EXPECT_EQ(Ask("Tp2000.2000"), "OK");
  EXPECT_EQ(Stop("vCont;s:p1234.1234"), "T05thread:p1234.1234;");
  EXPECT_EQ(Ask("m401000,1"), "b8") << "a stop selects its own thread";
}

TEST_F(ForkTest, TheChildCannotBeFollowed) {
  Stop("vCont;c");
  EXPECT_EQ(Ask("D;1234"), "E01");
  EXPECT_EQ(Stop("vCont;c"), "T05replaylog:end;thread:p1234.1234;");
  EXPECT_TRUE(absl::StrContains(client_.console(), "`hindsight replay -p 8192`"));
  EXPECT_EQ(Ask("D;1234"), "OK");
  EXPECT_EQ(client_.Close(), SessionEnd::kDetached);
}

TEST_F(VforkTest, IsOverAtOnce) {
  EXPECT_EQ(Stop("vCont;c"), "T05vfork:p2000.2000;thread:p1234.1234;");
  EXPECT_EQ(Stop("vCont;c:p1234.1234"), "T05vforkdone:;thread:p1234.1234;");
  EXPECT_EQ(Rip(), 0x401007u);
  EXPECT_EQ(Stop("vCont;c"), "T05replaylog:end;thread:p1234.1234;");
  EXPECT_EQ(Stop("bc"), "T05vfork:p2000.2000;thread:p1234.1234;");
  EXPECT_EQ(Rip(), 0x401005u);
  EXPECT_EQ(Stop("bc"), "T05vforkdone:;thread:p1234.1234;");
  EXPECT_EQ(Stop("bc"), "T05replaylog:begin;thread:p1234.1234;");
}

TEST_F(VforkTest, IsAForkForThoseWhoKnowOnlyForks) {
  Ask("qSupported:multiprocess+;fork-events+");
  EXPECT_EQ(Stop("vCont;c"), "T05fork:p2000.2000;thread:p1234.1234;");
  EXPECT_EQ(Stop("vCont;c"), "T05replaylog:end;thread:p1234.1234;");
}

TEST(VectorRegistersTest, AreThereIfRecorded) {
  FakeTarget sse("\xf4");
  EXPECT_EQ(SessionClient(&sse).Ask("g").size(), 2 * (536 + 3 * 8));
  EXPECT_EQ(SessionClient(&sse).Ask("p3c"), "E16");
  FakeTarget all("\xf4", FakeOptions{.registers = RegisterSet::kAvx512});
  SessionClient client(&all);
  EXPECT_EQ(client.Ask("g").size(), 2 * (536 + 3 * 8 + 16 * 48 + 8 * 8 + 32 * 32));
  EXPECT_EQ(client.Ask("p3c"), std::string(32, '0'));
  EXPECT_EQ(client.Ask("P93=" + std::string(64, '1')), "OK");
  EXPECT_EQ(client.Ask("p93"), std::string(64, '1'));
}

}  // namespace
}  // namespace hindsight
