#include "server/session/packet_table.h"

#include "gtest/gtest.h"

namespace hindsight {
namespace {

Reply Ok(SessionState&, absl::string_view) { return "OK"; }

constexpr PacketSpec kFirst[] = {
    {"v", Match::kPrefix, Ok},
    {"vCont?", Match::kWhole, Ok, "vContSupported+"},
    {"vCont;", Match::kPrefix, Ok},
    {"!", Match::kWhole, Ok},
};
constexpr PacketSpec kSecond[] = {
    {"qC", Match::kWhole, Ok},
    {"", Match::kWhole, nullptr, "swbreak+", /*only_if_offered=*/true},
};

class PacketTableTest : public ::testing::Test {
 protected:
  // "NAME|ARGUMENTS" of what serves `packet`; "" if nothing does.
  std::string Found(absl::string_view packet) {
    absl::string_view arguments;
    const PacketSpec* spec = table_.Find(packet, &arguments);
    return spec == nullptr ? "" : std::string(spec->name) + "|" + std::string(arguments);
  }

  PacketTable table_{{kFirst, kSecond}};
};

TEST_F(PacketTableTest, TheLongestNameWins) {
  EXPECT_EQ(Found("vCont;c"), "vCont;|c");
  EXPECT_EQ(Found("vCont?"), "vCont?|");
  EXPECT_EQ(Found("vCon"), "v|Con");
}

TEST_F(PacketTableTest, WholeNamesTakeNoArguments) {
  EXPECT_EQ(Found("!"), "!|");
  EXPECT_EQ(Found("!x"), "");
  EXPECT_EQ(Found("qCX"), "");
}

TEST_F(PacketTableTest, UnknownPacketsAreNotFound) {
  EXPECT_EQ(Found(""), "");
  EXPECT_EQ(Found("z"), "");
  EXPECT_EQ(Found("\xff"), "");
}

TEST_F(PacketTableTest, FeaturesThatChangeRepliesNeedAnOffer) {
  EXPECT_EQ(table_.Features({}), "PacketSize=20000;vContSupported+");
  EXPECT_EQ(table_.Features({"swbreak+"}), "PacketSize=20000;vContSupported+;swbreak+");
}

TEST(ErrorReplyTest, EveryErrorHasAReply) {
  EXPECT_EQ(ErrorReply(absl::UnimplementedError("")), "");
  EXPECT_EQ(ErrorReply(absl::NotFoundError("")), "E0e");
  EXPECT_EQ(ErrorReply(absl::InvalidArgumentError("")), "E16");
  EXPECT_EQ(ErrorReply(absl::DataLossError("")), "E05");
  EXPECT_EQ(ErrorReply(absl::InternalError("")), "E05");
}

}  // namespace
}  // namespace hindsight
