// Connecting, agreeing, leaving; registers, memory and threads.

#include "server/session/session.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/rsp/hex.h"
#include "server/session/session_client.h"
#include "server/target/fake_target.h"

namespace hindsight {
namespace {

// inc rax; mov [rdi],rax; nop; hlt
constexpr absl::string_view kProgram = "\x48\xff\xc0\x48\x89\x07\x90\xf4";
constexpr char kOffer[] = "qSupported:multiprocess+;swbreak+;hwbreak+;vContSupported+";

class SessionTest : public testing::Test {
 protected:
  FakeTarget target_{kProgram};
  SessionClient client_{&target_};

  std::string Ask(absl::string_view packet) { return client_.Ask(packet); }
};

TEST_F(SessionTest, AdvertisesWhatItServes) {
  const std::string features = absl::StrCat(Ask(kOffer), ";");
  for (const char* feature :
       {"PacketSize=20000", "QStartNoAckMode+", "multiprocess+", "swbreak+", "hwbreak+",
        "ReverseContinue+", "ReverseStep+", "ConditionalBreakpoints+", "vContSupported+",
        "qXfer:features:read+", "qXfer:auxv:read+", "qXfer:siginfo:read+", "qXfer:threads:read+",
        "qXfer:exec-file:read+", "qXfer:libraries-svr4:read+", "QPassSignals+", "QProgramSignals+",
        "QCatchSyscalls+", "QThreadEvents+"}) {
    EXPECT_TRUE(absl::StrContains(features, absl::StrCat(feature, ";"))) << feature;
  }
}

TEST_F(SessionTest, AdvertisesNothingThatChangesRepliesUnlessOffered) {
  const std::string features = Ask("qSupported:xmlRegisters=i386");
  for (const char* feature : {"multiprocess+", "swbreak+", "hwbreak+", "binary-upload+"}) {
    EXPECT_FALSE(absl::StrContains(features, feature)) << feature;
  }
  EXPECT_TRUE(absl::StrContains(Ask("qSupported:binary-upload+"), "binary-upload+"));
}

TEST_F(SessionTest, UnknownPacketsHaveAnEmptyReply) {
  for (const char* packet :
       {"vMustReplyEmpty", "qTStatus", "qOffsets", "qAgent", "QAgent:1", "vFoo", "jThreadsInfo",
        "_M10,rw", "\x01", "qCRC:0,1", "QNonStop:1", "i", ""}) {
    EXPECT_EQ(Ask(packet), "") << packet;
  }
}

// gdb writes no more than it was offered; `maint packet` and other clients may.
TEST_F(SessionTest, APacketThatIsTooLongIsAnError) {
  EXPECT_EQ(Ask(std::string(0x20001, 'm')), "E0c");
  EXPECT_EQ(Ask("QStartNoAckMode"), "OK");
  EXPECT_EQ(Ask(std::string(0x20001, 'm')), "E0c");
  EXPECT_EQ(Ask("!"), "OK");
}

TEST_F(SessionTest, StopsAcknowledgingBehindItsReply) {
  EXPECT_EQ(Ask("QStartNoAckMode"), "OK");
  EXPECT_EQ(Ask("!"), "OK");
}

TEST_F(SessionTest, ConnectsAsAttached) {
  EXPECT_EQ(Ask("qAttached"), "1");
  EXPECT_EQ(Ask("qAttached:1234"), "1");
  EXPECT_EQ(Ask("qSymbol::"), "OK");
  EXPECT_EQ(Ask("!"), "OK");
}

TEST_F(SessionTest, StatusIsAnOrdinaryStop) {
  Ask(kOffer);
  // Although the recording begins here: that is not new to a client that has only connected.
  EXPECT_TRUE(absl::StartsWith(Ask("?"), "T05thread:p1234.1234;06:"));
}

TEST_F(SessionTest, ThreadIdsCarryTheProcessIfAgreed) {
  EXPECT_EQ(Ask("qC"), "QC1234");
  EXPECT_EQ(Ask("qfThreadInfo"), "m1234");
  EXPECT_EQ(Ask("qsThreadInfo"), "l");
  Ask(kOffer);
  EXPECT_EQ(Ask("qC"), "QCp1234.1234");
  EXPECT_EQ(Ask("qfThreadInfo"), "mp1234.1234");
  EXPECT_EQ(Ask("qsThreadInfo"), "l");
}

TEST_F(SessionTest, SelectsThreads) {
  for (const char* packet : {"Hgp1234.1234", "Hg1234", "Hg0", "Hg-1", "Hgp0.0", "Hcp1234.0",
                             "Hcp1234.-1", "Hc1234", "Hc-1", "T1234", "Tp1234.1234"}) {
    EXPECT_EQ(Ask(packet), "OK") << packet;
  }
  for (const char* packet : {"Hg99", "Hgp99.1234", "Hc99", "Hg", "Hgp", "Hgx", "T99", "T", "T0",
                             "Hg1234x", "Hgffffffffff"}) {
    EXPECT_EQ(Ask(packet), "E16") << packet;
  }
}

TEST_F(SessionTest, DescribesThreads) {
  EXPECT_EQ(rsp::HexDecode(Ask("qThreadExtraInfo,1234")), "fake<&>");
  EXPECT_EQ(Ask("qThreadExtraInfo,99"), "E16");
  EXPECT_EQ(Ask("qGetTLSAddr:1234,10,2"), "20010");
  for (const char* packet : {"qGetTLSAddr:1234", "qGetTLSAddr:1234,10", "qGetTLSAddr:1234,10,",
                             "qGetTLSAddr:1234,10,2,3", "qGetTLSAddr:99,10,2"}) {
    EXPECT_EQ(Ask(packet), "E16") << packet;
  }
}

TEST_F(SessionTest, ReadsRegisters) {
  const std::string all = Ask("g");
  EXPECT_EQ(all.size(), 2 * (536 + 3 * 8));
  EXPECT_EQ(all.substr(16 * 16, 16), "0010400000000000");
  EXPECT_EQ(Ask("p10"), "0010400000000000");
  EXPECT_EQ(Ask("p11"), "02020000");
  EXPECT_EQ(Ask("p39"), "ffffffffffffffff");  // orig_rax
  for (const char* packet : {"p", "p3c", "pffffffffffffffff", "px", "p1g"}) {
    EXPECT_EQ(Ask(packet), "E16") << packet;
  }
}

TEST_F(SessionTest, ReadsMemory) {
  EXPECT_EQ(Ask("m401000,8"), "48ffc048890790f4");
  EXPECT_EQ(Ask("m401ffe,10"), "0000");  // as much as there is
  EXPECT_EQ(Ask("m1,1"), "E0e");
  EXPECT_EQ(Ask("m401000,ffffffffffffffff").size(), 0x2000u);
  for (const char* packet :
       {"m", "m401000", "m401000,", "m,1", "m401000,8,", "m401000,0", "m10000000000401000,1"}) {
    EXPECT_EQ(Ask(packet), "E16") << packet;
  }
}

TEST_F(SessionTest, ReadsMemoryInBinaryOnlyIfAgreed) {
  EXPECT_EQ(Ask("x401000,8"), "");
  Ask("qSupported:binary-upload+");
  EXPECT_EQ(Ask("x401000,8"), "b\x48\xff\xc0\x48\x89\x07\x90\xf4");
  EXPECT_EQ(Ask("x401000,0"), "b");
  EXPECT_EQ(Ask("x1,1"), "E0e");
}

TEST_F(SessionTest, DescribesMemoryRegions) {
  EXPECT_EQ(Ask("qMemoryRegionInfo:401800"),
            absl::StrCat("start:401000;size:1000;permissions:rx;name:", rsp::HexEncode("/bin/fake"),
                         ";"));
  EXPECT_EQ(Ask("qMemoryRegionInfo:402000"), "start:402000;size:2000;");
  EXPECT_EQ(Ask("qMemoryRegionInfo:"), "E16");
}

TEST_F(SessionTest, DetachEndsTheSession) {
  EXPECT_EQ(Ask("D;1234"), "OK");
  EXPECT_EQ(client_.Close(), SessionEnd::kDetached);
}

TEST_F(SessionTest, KillEndsTheSessionWithoutAReply) {
  client_.Send("k");
  EXPECT_TRUE(absl::StartsWith(client_.Receive(), "UNAVAILABLE"));
  EXPECT_EQ(client_.Close(), SessionEnd::kKilled);
}

TEST_F(SessionTest, KillForAnotherRunDoesNotEndTheSession) {
  Ask("!");
  EXPECT_EQ(Ask("vKill;1234"), "OK");
  EXPECT_TRUE(absl::StartsWith(Ask("vRun;"), "T05"));
}

TEST_F(SessionTest, ClosingTheConnectionEndsTheSession) {
  Ask("?");
  EXPECT_EQ(client_.Close(), SessionEnd::kDisconnected);
}

TEST(SessionsTest, ThePositionSurvivesButBreakpointsDoNot) {
  FakeTarget target(kProgram);
  {
    SessionClient first(&target);
    EXPECT_EQ(first.Ask("Z0,401006,1"), "OK");
    EXPECT_TRUE(absl::StartsWith(first.Ask("vCont;c"), "T05"));
  }
  EXPECT_EQ(target.pc(), 0x401006u);
  SessionClient second(&target);
  EXPECT_EQ(second.Ask("p10"), "0610400000000000");
  EXPECT_TRUE(absl::StrContains(second.Ask("c"), "replaylog:end;"));
}

}  // namespace
}  // namespace hindsight
