// A client that must say a token.

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/rsp/hex.h"
#include "server/session/session_client.h"
#include "server/target/fake_target.h"

namespace hindsight {
namespace {

constexpr absl::string_view kProgram = "\x48\xff\xc0\x48\x89\x07\x90\xf4";
constexpr char kToken[] = "0123456789abcdef";

class SessionLockTest : public testing::Test {
 protected:
  std::string Say(absl::string_view command) {
    return client_.Ask(absl::StrCat("qRcmd,", rsp::HexEncode(command)));
  }

  bool opened_ = false;
  FakeTarget target_{kProgram};
  SessionClient client_{&target_, {.token = kToken, .opened = [this] { opened_ = true; }}};
};

TEST_F(SessionLockTest, NothingIsServedBeforeTheToken) {
  EXPECT_TRUE(absl::StrContains(client_.Ask("qSupported:swbreak+"), "PacketSize"));
  EXPECT_EQ(client_.Ask("!"), "OK");
  EXPECT_EQ(client_.Ask("?"), "W00");
  for (const char* packet : {"g", "p0", "m1000,8", "x1000,8", "M1000,1:00", "vFile:open:2f,0,0",
                             "qfThreadInfo", "vCont;c", "bc", "c", "s", "Z0,1000,1", "vAttach;1234",
                             "vRun;", "qC", "Hg0", "qProcessInfo"}) {
    EXPECT_EQ(client_.Ask(packet), "") << packet;
  }
  for (const char* object : {"threads", "exec-file", "auxv", "libraries-svr4", "siginfo"}) {
    EXPECT_EQ(client_.Ask(absl::StrCat("qXfer:", object, ":read::0,1000")), "E01") << object;
  }
  Say("info");
  EXPECT_FALSE(absl::StrContains(client_.console(), "fake"));
  EXPECT_FALSE(opened_);
}

TEST_F(SessionLockTest, AllIsServedAfterIt) {
  client_.Ask("!");
  Say(absl::StrCat("token ", kToken));
  EXPECT_TRUE(opened_);
  EXPECT_TRUE(absl::StrContains(client_.console(), "attach 4660"));
  EXPECT_TRUE(absl::StartsWith(client_.Ask("vAttach;1234"), "T05"));
  EXPECT_TRUE(absl::StartsWith(client_.Ask("vAttach;1235"), "E"));
  EXPECT_NE(client_.Ask("g"), "");
}

TEST_F(SessionLockTest, ThreeWrongOnesEndIt) {
  for (const char* wrong : {"token 0123456789abcdeF", "token ", "token 0123456789abcdef0"}) {
    Say(wrong);
  }
  EXPECT_FALSE(opened_);
  EXPECT_EQ(client_.Close(), SessionEnd::kDisconnected);
}

}  // namespace
}  // namespace hindsight
