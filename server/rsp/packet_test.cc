#include "server/rsp/packet.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "absl/strings/str_cat.h"

namespace hindsight::rsp {
namespace {

constexpr size_t kMax = 64;

// The events as a line of text: "packet(qC) ack".
std::string Describe(PacketReader& reader) {
  std::string text;
  while (const std::optional<Event> event = reader.Next()) {
    if (!text.empty()) text += ' ';
    switch (event->kind) {
      case EventKind::kPacket:
        absl::StrAppend(&text, "packet(", event->payload, ")");
        break;
      case EventKind::kCorrupt:
        text += "corrupt";
        break;
      case EventKind::kTooLong:
        text += "too long";
        break;
      case EventKind::kAck:
        text += "ack";
        break;
      case EventKind::kNack:
        text += "nack";
        break;
      case EventKind::kInterrupt:
        text += "interrupt";
        break;
    }
  }
  return text;
}

std::string Read(absl::string_view bytes) {
  PacketReader reader(kMax);
  reader.Append(bytes);
  return Describe(reader);
}

TEST(FrameTest, HasTheChecksumInHexadecimal) {
  EXPECT_EQ(Frame("OK"), "$OK#9a");
  EXPECT_EQ(Frame(""), "$#00");
}

TEST(PacketReaderTest, ReadsPacketsAndSingleBytes) {
  EXPECT_EQ(Read("+$qC#b4-\x03$g#67"), "ack packet(qC) nack interrupt packet(g)");
}

TEST(PacketReaderTest, ReadsBytesOneByOne) {
  PacketReader reader(kMax);
  std::string text;
  for (const char c : absl::string_view("$m12,4#30+")) {
    reader.Append(absl::string_view(&c, 1));
    text += Describe(reader);
  }
  EXPECT_EQ(text, "packet(m12,4)ack");
}

TEST(PacketReaderTest, ChecksumMayBeInCapitals) { EXPECT_EQ(Read("$OK#9A"), "packet(OK)"); }

TEST(PacketReaderTest, SingleBytesInsideAPacketArePayload) {
  const std::string payload = "X0,3:+-\x03";
  EXPECT_EQ(Read(Frame(payload)), absl::StrCat("packet(", payload, ")"));
}

TEST(PacketReaderTest, SkipsNoiseBetweenPackets) {
  EXPECT_EQ(Read("noise#$g#67noise"), "packet(g)");
}

TEST(PacketReaderTest, WrongChecksumIsCorrupt) {
  EXPECT_EQ(Read("$g#68$g#67"), "corrupt packet(g)");
}

TEST(PacketReaderTest, ChecksumThatIsNoNumberIsCorrupt) { EXPECT_EQ(Read("$g#zz"), "corrupt"); }

TEST(PacketReaderTest, PacketThatLostItsEndGivesWayToTheNext) {
  EXPECT_EQ(Read("$vCont;c$g#67"), "packet(g)");
  EXPECT_EQ(Read("$vCont;c#a$g#67"), "packet(g)");
}

TEST(PacketReaderTest, TooLongPacketIsCorruptAndTheNextIsFine) {
  EXPECT_EQ(Read(Frame(std::string(kMax, 'a'))),
            absl::StrCat("packet(", std::string(kMax, 'a'), ")"));
  EXPECT_EQ(Read(absl::StrCat(Frame(std::string(kMax + 1, 'a')), "$g#67")), "too long packet(g)");
  EXPECT_EQ(Read(absl::StrCat("$", std::string(kMax + 1, 'a'), "#00$g#67")), "corrupt packet(g)");
}

TEST(ExpandRunsTest, RepeatsTheCharacterBefore) {
  EXPECT_EQ(ExpandRuns("0* ", kMax), "0000");
  EXPECT_EQ(ExpandRuns("a0*\"b", kMax), "a000000b");
  EXPECT_EQ(ExpandRuns("plain", kMax), "plain");
}

TEST(ExpandRunsTest, RejectsARunOfNothing) { EXPECT_EQ(ExpandRuns("* ", kMax), std::nullopt); }

TEST(ExpandRunsTest, RejectsACutOffRun) { EXPECT_EQ(ExpandRuns("0*", kMax), std::nullopt); }

TEST(ExpandRunsTest, RejectsCountsThatAreNotPrintable) {
  EXPECT_EQ(ExpandRuns("0*\x1f", kMax), std::nullopt);
  EXPECT_EQ(ExpandRuns("0*\x7f", kMax), std::nullopt);
  EXPECT_EQ(ExpandRuns("0*\xff", kMax), std::nullopt);
}

TEST(ExpandRunsTest, RejectsWhatExpandsToTooMuch) {
  EXPECT_EQ(ExpandRuns("0*~0*~", kMax), std::nullopt);
  EXPECT_EQ(ExpandRuns(std::string(kMax + 1, 'a'), kMax), std::nullopt);
}

TEST(PacketReaderTest, WildBytesInAnyPiecesAreReadTheSame) {
  const unsigned seed = 20240817;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  // Mostly bytes that mean something, so that states are mixed.
  const absl::string_view alphabet = "$#+-*}\x03g67a";
  for (int round = 0; round < 200; ++round) {
    std::string bytes;
    for (int i = 0; i < 300; ++i) bytes.push_back(alphabet[random() % alphabet.size()]);
    PacketReader pieces(kMax);
    std::string text;
    for (size_t at = 0; at < bytes.size();) {
      const size_t size = 1 + random() % 7;
      pieces.Append(absl::string_view(bytes).substr(at, size));
      const std::string more = Describe(pieces);
      if (!text.empty() && !more.empty()) text += ' ';
      text += more;
      at += size;
    }
    EXPECT_EQ(text, Read(bytes));
  }
}

}  // namespace
}  // namespace hindsight::rsp
