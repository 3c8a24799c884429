#include "server/rsp/link.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>

namespace hindsight::rsp {
namespace {

// A stream whose other side said everything in advance, in pieces.
class ScriptedStream final : public ByteStream {
 public:
  explicit ScriptedStream(std::deque<std::string> input) : input_(std::move(input)) {}

  absl::StatusOr<size_t> Read(absl::Span<char> out, bool wait) override {
    if (input_.empty()) return absl::UnavailableError("closed");
    const std::string piece = input_.front();
    input_.pop_front();
    piece.copy(out.data(), out.size());
    return piece.size();
  }

  absl::Status Write(absl::string_view bytes) override {
    if (deaf) return absl::UnavailableError("closed");
    written.emplace_back(bytes);
    return absl::OkStatus();
  }

  std::deque<std::string> written;
  bool deaf = false;  // the other side does not read any more

 private:
  std::deque<std::string> input_;
};

TEST(LinkTest, AcknowledgesPacketsUntilAgreedOtherwise) {
  ScriptedStream stream({"$g#67", "$g#67"});
  Link link(&stream);
  EXPECT_EQ(link.Receive().value(), "g");
  EXPECT_EQ(stream.written, (std::deque<std::string>{"+"}));
  link.StopAcknowledging();
  EXPECT_EQ(link.Receive().value(), "g");
  EXPECT_EQ(stream.written.size(), 1u);
}

TEST(LinkTest, AsksAgainForADamagedPacket) {
  ScriptedStream stream({"$g#00", "$g#67"});
  Link link(&stream);
  EXPECT_EQ(link.Receive().value(), "g");
  EXPECT_EQ(stream.written, (std::deque<std::string>{"-", "+"}));
}

TEST(LinkTest, APacketThatIsTooLongIsTakenAndRefused) {
  std::deque<std::string> pieces = {"$"};
  for (size_t bytes = 0; bytes <= Link::kMaxPacketBytes; bytes += 4096) {
    pieces.emplace_back(4096, '\0');
  }
  pieces.insert(pieces.end(), {"#00", "$g#67"});
  ScriptedStream stream(pieces);
  Link link(&stream);
  EXPECT_EQ(link.Receive().status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(link.Receive().value(), "g");
  EXPECT_EQ(stream.written, (std::deque<std::string>{"+", "+"}));
}

TEST(LinkTest, SendsAgainWhatWasDamaged) {
  ScriptedStream stream({"-", "+", "-", "$g#67"});
  Link link(&stream);
  ASSERT_TRUE(link.Send("OK").ok());
  EXPECT_EQ(link.Receive().value(), "g");
  // The second '-' comes after the reply was acknowledged and means nothing.
  EXPECT_EQ(stream.written, (std::deque<std::string>{"$OK#9a", "$OK#9a", "+"}));
}

TEST(LinkTest, TheLastPacketOfASideThatIsGoneCounts) {
  ScriptedStream stream({"$k#6b"});
  stream.deaf = true;
  Link link(&stream);
  EXPECT_EQ(link.Receive().value(), "k");
}

TEST(LinkTest, AReplyIsOneWrite) {
  ScriptedStream stream({});
  Link link(&stream);
  ASSERT_TRUE(link.Send(std::string(100000, '0')).ok());
  EXPECT_EQ(stream.written.size(), 1u);
}

TEST(LinkTest, InterruptBehindThePacketIsSeenByPolling) {
  ScriptedStream stream({"$vCont;c#a8\x03", ""});
  Link link(&stream);
  EXPECT_EQ(link.Receive().value(), "vCont;c");
  EXPECT_TRUE(link.PollInterrupt());
}

TEST(LinkTest, InterruptBeforeThePacketIsKept) {
  ScriptedStream stream({"\x03$vCont;c#a8", "", ""});
  Link link(&stream);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(link.Receive().value(), "vCont;c");
  EXPECT_FALSE(link.PollInterrupt());
  EXPECT_TRUE(link.TakeEarlyInterrupt(start));
  EXPECT_FALSE(link.TakeEarlyInterrupt(start));
}

TEST(LinkTest, AnOldInterruptIsForgotten) {
  ScriptedStream stream({"\x03$vCont;c#a8", "", ""});
  Link link(&stream);
  EXPECT_EQ(link.Receive().value(), "vCont;c");
  EXPECT_FALSE(link.TakeEarlyInterrupt(std::chrono::steady_clock::time_point::max()));
}

TEST(LinkTest, OneInterruptInterruptsOnce) {
  ScriptedStream stream({"$c#63", "\x03", ""});
  Link link(&stream);
  EXPECT_EQ(link.Receive().value(), "c");
  EXPECT_TRUE(link.PollInterrupt());
  EXPECT_FALSE(link.PollInterrupt());
}

TEST(LinkTest, PacketsThatComeDuringARunAreKept) {
  ScriptedStream stream({"$c#63", "$g#67"});
  Link link(&stream);
  EXPECT_EQ(link.Receive().value(), "c");
  EXPECT_FALSE(link.PollInterrupt());
  EXPECT_EQ(link.Receive().value(), "g");
}

TEST(LinkTest, AClosedStreamInterruptsAndEndsReceiving) {
  ScriptedStream stream({});
  Link link(&stream);
  EXPECT_TRUE(link.PollInterrupt());
  EXPECT_TRUE(absl::IsUnavailable(link.Receive().status()));
}

}  // namespace
}  // namespace hindsight::rsp
