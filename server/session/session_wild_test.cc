// Wild packets: whatever a client says, the session answers and lives.

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "absl/strings/match.h"
#include "server/session/session_client.h"
#include "server/target/fake_target.h"

namespace hindsight {
namespace {

// inc rax; mov [rdi],rax; mov rcx,[rsi]; syscall; ud2; nop; hlt
constexpr absl::string_view kProgram =
    "\x48\xff\xc0\x48\x89\x07\x48\x8b\x0e\x0f\x05\x0f\x0b\x90\xf4";

constexpr absl::string_view kPackets[] = {
    "qSupported:multiprocess+;swbreak+;hwbreak+;binary-upload+",
    "?",
    "Hgp1234.1234",
    "Hcp1234.0",
    "g",
    "p10",
    "P10=0010400000000000",
    "m401000,10",
    "x401000,10",
    "M404000,2:0102",
    "X404000,2:ab",
    "qMemoryRegionInfo:401000",
    "Z0,401006,1;X7,26000022051327",
    "z0,401006,1",
    "Z2,404000,8",
    "z2,404000,8",
    "vCont;s:p1234.1234;c",
    "vCont;r401000,401006:p1234.1234",
    "C04",
    "s",
    "c",
    "bs",
    "bc",
    "vRun;;3130",
    "QPassSignals:e;4",
    "QCatchSyscalls:1;0;a",
    "T1234",
    "qfThreadInfo",
    "qsThreadInfo",
    "qThreadExtraInfo,1234",
    "qGetTLSAddr:1234,10,20",
    "qXfer:features:read:target.xml:0,100",
    "qXfer:libraries-svr4:read::10,fff",
    "vFile:open:2f66,0,0",
    "vFile:pread:3,10,0",
    "vFile:fstat:3",
    "vFile:close:3",
    "vFile:readlink:2f70",
    "qRcmd,7768656e",
    "vKill;1",
    "qSymbol::",
};

std::string Mutate(std::string packet, std::mt19937& random) {
  constexpr absl::string_view kAlphabet = "0123456789abcdefgpxXyzZ,;:.=-+*/#$}{?\x01\x7f\xff";
  for (size_t changes = random() % 4; changes > 0; --changes) {
    const size_t at = packet.empty() ? 0 : random() % packet.size();
    const char c = kAlphabet[random() % kAlphabet.size()];
    switch (random() % 4) {
      case 0:
        packet.insert(at, 1, c);
        break;
      case 1:
        if (!packet.empty()) packet[at] = c;
        break;
      case 2:
        packet = packet.substr(0, at);
        break;
      case 3:
        packet.insert(at, packet.substr(at, random() % 8));
        break;
    }
  }
  return packet;
}

TEST(SessionWildTest, MutatedPacketsAreAnswered) {
  const unsigned seed = 7;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  FakeTarget target(kProgram);
  target.files["/f"] = "contents";
  SessionClient client(&target);
  // Nothing a packet can break may be hidden by a diversion for the rest of the test.
  for (int i = 0; i < 20'000; ++i) {
    std::string packet = Mutate(std::string(kPackets[random() % std::size(kPackets)]), random);
    // Those two end the session, as they should; '#' and '$' cannot be in a packet.
    if (packet == "k" || packet == "D" || absl::StartsWith(packet, "D;")) continue;
    std::erase_if(packet, [](char c) { return c == '#' || c == '$'; });
    const std::string reply = client.Ask(packet);
    ASSERT_FALSE(absl::StartsWith(reply, "UNAVAILABLE") || absl::StartsWith(reply, "DEADLINE"))
        << packet << ": " << reply;
    if (i % 16 == 0) client.Ask("vRun;");
  }
  EXPECT_EQ(client.Ask("vMustReplyEmpty"), "");
}

}  // namespace
}  // namespace hindsight
