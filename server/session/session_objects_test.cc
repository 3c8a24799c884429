// qXfer, vFile, monitor commands, and writes, which go to a throw-away copy.

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/rsp/hex.h"
#include "server/session/session_client.h"
#include "server/target/fake_target.h"
#include "server/target/target_description.h"

namespace hindsight {
namespace {

// 401000 call 401007
// 401005 nop
// 401006 hlt
// 401007 inc rax
// 40100a ret
constexpr absl::string_view kCall("\xe8\x02\x00\x00\x00\x90\xf4\x48\xff\xc0\xc3", 11);

class ObjectsTest : public testing::Test {
 protected:
  std::string Ask(absl::string_view packet) { return client_.Ask(packet); }
  std::string Monitor(absl::string_view command) {
    EXPECT_EQ(Ask(absl::StrCat("qRcmd,", rsp::HexEncode(command))), "OK");
    return client_.TakeConsole();
  }
  std::string Path(absl::string_view path) { return rsp::HexEncode(path); }

  FakeTarget target_{kCall};
  SessionClient client_{&target_};
};

TEST_F(ObjectsTest, TransfersInPieces) {
  std::string xml;
  std::string reply;
  do {
    reply = Ask(absl::StrCat("qXfer:features:read:target.xml:", absl::Hex(xml.size()), ",100"));
    ASSERT_FALSE(reply.empty());
    const std::optional<std::string> piece = rsp::Unescape(absl::string_view(reply).substr(1));
    ASSERT_TRUE(piece.has_value());
    xml += *piece;
  } while (reply[0] == 'm');
  EXPECT_EQ(reply[0], 'l');
  EXPECT_EQ(xml, TargetXml(RegisterSet::kSse));
  EXPECT_EQ(Ask("qXfer:features:read:target.xml:ffffffff,100"), "l");
  EXPECT_EQ(Ask("qXfer:features:read:other.xml:0,100"), "E0e");
}

TEST_F(ObjectsTest, TransfersBinary) {
  const std::string reply = Ask("qXfer:auxv:read::0,1000");
  EXPECT_EQ(rsp::Unescape(reply.substr(1)), std::string("auxv*}#$\0end", 12));
  EXPECT_EQ(Ask("qXfer:auxv:read::4,1"), "m}\x0a");
}

TEST_F(ObjectsTest, ServesObjects) {
  EXPECT_EQ(Ask("qXfer:exec-file:read:1234:0,1000"), "l/bin/fake");
  EXPECT_EQ(Ask("qXfer:exec-file:read::0,1000"), "l/bin/fake");
  EXPECT_EQ(Ask("qXfer:siginfo:read::0,1000").size(), 129u);
  EXPECT_TRUE(absl::StrContains(Ask("qXfer:threads:read::0,1000"),
                                "<thread id=\"1234\" name=\"fake&lt;&amp;&gt;\"/>"));
  const std::string libraries = Ask("qXfer:libraries-svr4:read::0,1000");
  EXPECT_TRUE(absl::StrContains(libraries, "main-lm=\"0x1000\""));
  EXPECT_TRUE(
      absl::StrContains(libraries,
                        "<library name=\"/lib/a&lt;b&gt;.so\" lm=\"0x2000\" l_addr=\"0x7000000\" "
                        "l_ld=\"0x7001000\" lmid=\"0x0\"/>"));
}

TEST_F(ObjectsTest, MalformedTransfersAreRejected) {
  for (const char* packet :
       {"qXfer:auxv:read:", "qXfer:auxv:read::", "qXfer:auxv:read::0", "qXfer:auxv:read::0,",
        "qXfer:auxv:read::x,1", "qXfer:auxv:read::0,1,2"}) {
    EXPECT_EQ(Ask(packet), "E16") << packet;
  }
  EXPECT_EQ(Ask("qXfer:auxv:write::0:00"), "");
  EXPECT_EQ(Ask("qXfer:nothing:read::0,1"), "");
}

TEST_F(ObjectsTest, ServesFiles) {
  target_.files["/lib/libc.so.6"] = "ELF*data";
  EXPECT_EQ(Ask("vFile:setfs:0"), "F0");
  EXPECT_EQ(Ask(absl::StrCat("vFile:open:", Path("/lib/libc.so.6"), ",0,0")), "F3");
  EXPECT_EQ(Ask("vFile:pread:3,1000,0"), "F8;ELF}\ndata");
  EXPECT_EQ(Ask("vFile:pread:3,2,5"), "F2;at");
  EXPECT_EQ(Ask("vFile:pread:3,2,8"), "F0;");
  EXPECT_EQ(Ask("vFile:pread:3,2,ffffffffffffffff"), "F0;");
  const std::string stat = Ask("vFile:fstat:3");
  EXPECT_TRUE(absl::StartsWith(stat, "F40;"));
  EXPECT_EQ(rsp::Unescape(stat.substr(4))->substr(28, 8), std::string("\0\0\0\0\0\0\0\x08", 8));
  EXPECT_EQ(Ask("vFile:close:3"), "F0");
  EXPECT_EQ(Ask("vFile:close:3"), "F-1,9");
  EXPECT_EQ(Ask("vFile:pread:3,1,0"), "F-1,9");
  EXPECT_EQ(Ask("vFile:fstat:3"), "F-1,9");
  EXPECT_EQ(Ask(absl::StrCat("vFile:readlink:", Path("/proc/4660/exe"))), "F9;/bin/fake");
}

TEST_F(ObjectsTest, ServesNoFilesOfThisMachineAndNoWrites) {
  EXPECT_EQ(Ask(absl::StrCat("vFile:open:", Path("/etc/passwd"), ",0,0")), "F-1,2");
  EXPECT_EQ(Ask(absl::StrCat("vFile:open:", Path("/tmp/new"), ",601,1a4")), "F-1,1e");
  EXPECT_EQ(Ask(absl::StrCat("vFile:readlink:", Path("/proc/self/exe"))), "F-1,2");
  EXPECT_EQ(Ask("vFile:pwrite:3,0,x"), "F-1,1e");
  EXPECT_EQ(Ask(absl::StrCat("vFile:unlink:", Path("/tmp/x"))), "F-1,1e");
}

TEST_F(ObjectsTest, MalformedFileRequestsAreRejected) {
  for (const char* packet :
       {"vFile:open:", "vFile:open:2f", "vFile:open:2f,0", "vFile:open:2,0,0",
        "vFile:pread:", "vFile:pread:3", "vFile:pread:3,1", "vFile:pread:3,1,x",
        "vFile:close:", "vFile:close:x", "vFile:readlink:"}) {
    EXPECT_EQ(Ask(packet), "E16") << packet;
  }
}

TEST_F(ObjectsTest, TheNumberOfOpenFilesIsBounded) {
  target_.files["/f"] = "";
  std::string reply;
  for (int i = 0; i < 65; ++i) reply = Ask(absl::StrCat("vFile:open:", Path("/f"), ",0,0"));
  EXPECT_EQ(reply, "F-1,18");
}

TEST_F(ObjectsTest, MonitorOutputGoesToTheConsole) {
  EXPECT_EQ(Monitor("when"), "position 0, thread 4660\n");
  EXPECT_EQ(Monitor(" goto 3 "), "position 3, thread 4660\n");
  EXPECT_EQ(target_.position(), 3u);
  EXPECT_EQ(Monitor("nonsense"), "hindsight: unknown command: nonsense\n");
  EXPECT_EQ(Ask("qRcmd,7"), "E16");
}

TEST_F(ObjectsTest, EmptyWriteBeginsNoDiversion) {
  EXPECT_EQ(Ask("X404000,0:"), "OK");
  EXPECT_FALSE(target_.InDiversion());
}

// What gdb does for `print function()`, and nothing of it stays.
TEST_F(ObjectsTest, FunctionsRunInAThrowAwayCopy) {
  const std::string before = Ask("g");
  EXPECT_EQ(Ask("X7fff0780,1:\xcc"), "OK");
  EXPECT_TRUE(target_.InDiversion());
  EXPECT_EQ(Ask("M7fff0778,8:8007ff7f00000000"), "OK");  // the return address
  EXPECT_EQ(Ask("P7=7807ff7f00000000"), "OK");
  EXPECT_EQ(Ask("P39=ffffffffffffffff"), "OK");
  EXPECT_EQ(Ask("P10=0710400000000000"), "OK");
  EXPECT_EQ(Ask("Z0,7fff0780,1"), "OK");
  EXPECT_TRUE(absl::StartsWith(Ask("vCont;c:1234"), "T05"));
  EXPECT_EQ(Ask("z0,7fff0780,1"), "OK");
  EXPECT_EQ(Ask("p0"), "0100000000000000");
  EXPECT_EQ(Ask("p10"), "8007ff7f00000000");
  EXPECT_TRUE(target_.InDiversion());
  EXPECT_EQ(Ask("G" + before), "OK");
  EXPECT_FALSE(target_.InDiversion());
  EXPECT_EQ(Ask("m7fff0780,1"), "00");
  EXPECT_EQ(Ask("g"), before);
}

TEST_F(ObjectsTest, ReversingInADiversionStopsAtOnce) {
  Ask("vCont;s");
  EXPECT_EQ(Ask("M404000,1:2a"), "OK");
  EXPECT_EQ(Ask("P1=0700000000000000"), "OK");
  EXPECT_TRUE(absl::StartsWith(Ask("bs"), "T05replaylog:begin;"));
  EXPECT_TRUE(absl::StrContains(client_.TakeConsole(), "monitor discard"));
  EXPECT_EQ(Ask("m404000,1"), "2a");
  Monitor("discard");
  EXPECT_EQ(Ask("m404000,1"), "00");
  EXPECT_TRUE(absl::StartsWith(Ask("bs"), "T05thread"));
}

// gdb calls malloc, writes the string into what that returned, and calls the function proper.
TEST_F(ObjectsTest, ACallGoesOnInTheCopyOfTheOneBefore) {
  Ask("M404000,1:2a");
  Ask("P1=0700000000000000");
  Ask("P1=0000000000000000");
  EXPECT_FALSE(target_.InDiversion());
  EXPECT_EQ(Ask("m404000,1"), "00");
  EXPECT_EQ(Ask("P1=0000000000000000"), "OK");  // nothing new
  EXPECT_FALSE(target_.InDiversion());
  Ask("M404008,1:2b");
  EXPECT_TRUE(target_.InDiversion());
  EXPECT_EQ(Ask("m404000,1"), "2a");
  Ask("P1=0700000000000000");
  Ask("P1=0000000000000000");
  EXPECT_FALSE(target_.InDiversion());
  Ask("s");
  Ask("M404008,1:2b");
  EXPECT_EQ(Ask("m404000,1"), "00");
}

TEST_F(ObjectsTest, WhatWasOnlyWrittenToMemoryIsGoneWhenTheProgramMoves) {
  Ask("vCont;s");
  Ask("M404000,1:2a");
  EXPECT_TRUE(absl::StartsWith(Ask("bs"), "T05thread"));
  EXPECT_EQ(target_.position(), 0u);
  EXPECT_FALSE(client_.TakeConsole().empty());
  EXPECT_EQ(Ask("m404000,1"), "00");
}

TEST_F(ObjectsTest, WritingWhatIsThereBeginsNoDiversion) {
  EXPECT_EQ(Ask("G" + Ask("g")), "OK");
  EXPECT_FALSE(target_.InDiversion());
}

TEST_F(ObjectsTest, JumpsAndTheEndOfTheSessionLeaveTheDiversion) {
  Ask("M404000,1:2a");
  Monitor("goto 2");
  EXPECT_FALSE(target_.InDiversion());
  Ask("M404000,1:2a");
  Ask("vRun;");
  EXPECT_FALSE(target_.InDiversion());
  Ask("M404000,1:2a");
  client_.Close();
  EXPECT_FALSE(target_.InDiversion());
}

TEST_F(ObjectsTest, RefusedWritesAreNotSupportedRatherThanErrors) {
  target_.refuse_writes = true;
  EXPECT_EQ(Ask("P0=0100000000000000"), "");
  EXPECT_EQ(Ask("M404000,1:2a"), "");
  std::string registers = Ask("g");
  registers[0] = 'f';
  EXPECT_EQ(Ask("G" + registers), "");
}

TEST_F(ObjectsTest, MalformedWritesAreRejected) {
  for (const char* packet : {"P", "P0", "P0=", "P0=00", "P3c=00", "P0=000000000000000g", "G", "G00",
                             "Gxx", "M404000", "M404000,1", "M404000,1:", "M404000,2:00",
                             "M404000,1:0", "M404000,1:zz", "X404000,2:a", "X404000,1:}"}) {
    EXPECT_EQ(Ask(packet), "E16") << packet;
  }
  EXPECT_EQ(Ask("M1,1:00"), "E0e");
  EXPECT_FALSE(target_.InDiversion());
}

}  // namespace
}  // namespace hindsight
