#include "server/door.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"

namespace hindsight {
namespace {

using std::chrono::milliseconds;

UniqueFd Connect(const Listener& listener) {
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int port = 0;
  EXPECT_TRUE(
      absl::SimpleAtoi(listener.address().substr(listener.address().rfind(':') + 1), &port));
  to.sin_port = htons(static_cast<uint16_t>(port));
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  return fd;
}

UniqueFd ConnectAndSay(const Listener& listener, const std::string& text) {
  UniqueFd fd = Connect(listener);
  EXPECT_EQ(send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL), ssize_t(text.size()));
  return fd;
}

// All that comes until the other side closes, or nothing does for ten seconds.
std::string ReadToEnd(const UniqueFd& fd) {
  std::string text;
  char bytes[512];
  pollfd ready = {fd.get(), POLLIN, 0};
  while (poll(&ready, 1, 10'000) > 0) {
    const ssize_t size = read(fd.get(), bytes, sizeof(bytes));
    if (size <= 0) return text + "(closed)";
    text.append(bytes, static_cast<size_t>(size));
  }
  return text + "(open)";
}

class DoorTest : public testing::Test {
 protected:
  void Open() {
    options_.grace = milliseconds(100);
    options_.report = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      reports_ += line + "\n";
    };
    listener_.emplace(*Listener::Tcp("127.0.0.1:0"));
    door_.emplace(&*listener_, PeerUsers::Open(), options_);
  }
  std::string reports() {
    const std::lock_guard lock(mutex_);
    return reports_;
  }
  // Serves as a session does: a thread waits for what the client says.
  static std::thread Serve(const std::shared_ptr<Connection>& connection) {
    return std::thread([connection] {
      char bytes[64];
      while (connection->Read(absl::MakeSpan(bytes), /*wait=*/true).ok()) continue;
    });
  }

  DoorOptions options_ = {};
  std::mutex mutex_;
  std::string reports_;
  std::optional<Listener> listener_;
  std::optional<Door> door_;
};

TEST_F(DoorTest, AClientOfThisUserIsLetInWithAllItSaid) {
  Open();
  const UniqueFd client = ConnectAndSay(*listener_, "+$?#3f");
  absl::StatusOr<Client> served = door_->Next();
  ASSERT_TRUE(served.ok());
  EXPECT_FALSE(served->must_know_token);
  EXPECT_TRUE(served->connection->proven());
  char bytes[64];
  const size_t size = *served->connection->Read(absl::MakeSpan(bytes), true);
  EXPECT_EQ(std::string(bytes, size), "+$?#3f");
}

TEST_F(DoorTest, WhatIsNoPacketIsDropped) {
  Open();
  for (const char* text : {"POST / HTTP/1.1\r\n\r\n", "GET /", "\x16\x03\x01", "hello $?#3f"}) {
    EXPECT_EQ(ReadToEnd(ConnectAndSay(*listener_, text)), "(closed)") << text;
  }
  EXPECT_TRUE(absl::StrContains(reports(), "POST / HTTP"));
  // Nobody was let in before this one.
  const UniqueFd client = ConnectAndSay(*listener_, "$");
  EXPECT_TRUE(door_->Next().ok());
}

TEST_F(DoorTest, OneThatSaysNothingKeepsNobodyWaiting) {
  options_.first_byte = milliseconds(300);
  Open();
  const UniqueFd silent = Connect(*listener_);
  const UniqueFd client = ConnectAndSay(*listener_, "+");
  EXPECT_TRUE(door_->Next().ok());
  EXPECT_EQ(ReadToEnd(silent), "(closed)");
}

TEST_F(DoorTest, ASecondClientIsToldWhyItMustWaitAndThenTakesOver) {
  Open();
  const UniqueFd first = ConnectAndSay(*listener_, "$");
  std::shared_ptr<Connection> served = door_->Next()->connection;
  std::thread session = Serve(served);
  const std::string told = ReadToEnd(ConnectAndSay(*listener_, "+$qSupported#37"));
  EXPECT_TRUE(absl::StartsWith(told, "+$E.another debugger is connected, idle")) << told;
  EXPECT_TRUE(absl::StrContains(told, "connect again")) << told;
  EXPECT_TRUE(absl::EndsWith(told, "(closed)"));
  const UniqueFd third = ConnectAndSay(*listener_, "+$qSupported#37");
  session.join();  // its connection was closed
  EXPECT_EQ(ReadToEnd(first), "(closed)");
  served.reset();
  EXPECT_TRUE(door_->Next().ok());
}

TEST_F(DoorTest, ABusyOneIsNotTakenOverFrom) {
  Open();
  const UniqueFd first = ConnectAndSay(*listener_, "$");
  const std::shared_ptr<Connection> served = door_->Next()->connection;  // nobody reads: it works
  for (int i = 0; i < 2; ++i) {
    const std::string told = ReadToEnd(ConnectAndSay(*listener_, "+$qSupported#37"));
    EXPECT_TRUE(absl::StrContains(told, "a command of it is running")) << told;
  }
  EXPECT_FALSE(served->IdleFor().count() != 0);
}

TEST_F(DoorTest, WhenOneGoesTheNextIsNotRefused) {
  Open();
  for (int i = 0; i < 3; ++i) {
    UniqueFd client = ConnectAndSay(*listener_, "$");
    std::shared_ptr<Connection> served = door_->Next()->connection;
    client.Reset();
    const UniqueFd next = ConnectAndSay(*listener_, "$");
    usleep(300'000);  // longer than the grace: the session takes its time to end
    pollfd state = {next.get(), POLLIN, 0};
    EXPECT_EQ(poll(&state, 1, 0), 0) << "was sent something";
    served.reset();
    EXPECT_TRUE(door_->Next().ok());
  }
}

// As root only: another user's process connects.
TEST_F(DoorTest, OtherUsersAreRefusedOrMustKnowTheToken) {
  if (getuid() != 0) GTEST_SKIP() << "only root can be another user";
  for (const bool has_token : {false, true}) {
    options_.has_token = has_token;
    Open();
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      if (setresuid(65534, 65534, 65534) != 0) _exit(9);
      const UniqueFd fd = ConnectAndSay(*listener_, "+$qSupported#37");
      char bytes[16];
      const ssize_t size = read(fd.get(), bytes, sizeof(bytes));
      _exit(size > 3 && std::string(bytes, 4) == "+$E." ? 1 : 0);
    }
    if (has_token) {
      absl::StatusOr<Client> client = door_->Next();
      ASSERT_TRUE(client.ok());
      EXPECT_TRUE(client->must_know_token);
      EXPECT_FALSE(client->connection->proven());
      // One of this user does not wait for a stranger.
      const UniqueFd own = ConnectAndSay(*listener_, "$");
      std::thread session = Serve(client->connection);
      session.join();
      *client = {};
      client = door_->Next();
      ASSERT_TRUE(client.ok());
      EXPECT_FALSE(client->must_know_token);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(WEXITSTATUS(status), has_token ? 0 : 1);
    door_.reset();
  }
}

TEST(PeerUsersTest, BothKindsOfSocketsAreKnown) {
  const PeerUsers users = PeerUsers::Open();
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  const UniqueFd a(pair[0]), b(pair[1]);
  EXPECT_EQ(users.UserOf(a.get()), getuid());
  for (const char* where : {"127.0.0.1:0", "[::1]:0", "[::]:0"}) {
    absl::StatusOr<Listener> listener = Listener::Tcp(where);
    if (!listener.ok()) continue;  // a host without IPv6
    if (absl::StartsWith(where, "[::1]")) continue;
    const UniqueFd client = Connect(*listener);
    const auto connection = *listener->Accept();
    EXPECT_EQ(users.UserOf(connection->descriptor()), getuid()) << where;
  }
  EXPECT_EQ(users.UserOf(STDIN_FILENO), std::nullopt);
}

}  // namespace
}  // namespace hindsight
