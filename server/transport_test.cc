#include "server/transport.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace hindsight {
namespace {

std::unique_ptr<Connection> ConnectTcp(const std::string& address) {
  const size_t colon = address.rfind(':');
  int port = 0;
  if (!absl::SimpleAtoi(address.substr(colon + 1), &port)) return nullptr;
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, address.substr(0, colon).c_str(), &to.sin_addr);
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0) return nullptr;
  return std::make_unique<Connection>(std::move(fd));
}

std::unique_ptr<Connection> ConnectUnix(const std::string& path) {
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  path.copy(to.sun_path, sizeof(to.sun_path) - 1);
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0) return nullptr;
  return std::make_unique<Connection>(std::move(fd));
}

std::string ReadSome(Connection& connection) {
  char bytes[64];
  const absl::StatusOr<size_t> size = connection.Read(absl::MakeSpan(bytes), /*wait=*/true);
  return size.ok() ? std::string(bytes, *size) : std::string(size.status().ToString());
}

// Bazel's directory for tests is too deep for the address of a Unix socket.
class TemporaryDirectory {
 public:
  TemporaryDirectory() { EXPECT_NE(mkdtemp(path_), nullptr); }
  ~TemporaryDirectory() { EXPECT_EQ(rmdir(path_), 0); }
  std::string File(absl::string_view name) const { return absl::StrCat(path_, "/", name); }

 private:
  char path_[32] = "/tmp/hindsight_test_XXXXXX";
};

TEST(TransportTest, TcpListensOnTheLoopbackAndSaysWhere) {
  for (const char* where : {"", ":", "0", ":0", "127.0.0.1:0", "127.0.0.1:"}) {
    absl::StatusOr<Listener> listener = Listener::Tcp(where);
    ASSERT_TRUE(listener.ok()) << listener.status();
    EXPECT_TRUE(absl::StartsWith(listener->address(), "127.0.0.1:"));
    EXPECT_FALSE(absl::EndsWith(listener->address(), ":0"));
  }
}

TEST(TransportTest, BytesTravelBothWays) {
  absl::StatusOr<Listener> listener = Listener::Tcp("");
  ASSERT_TRUE(listener.ok());
  for (int i = 0; i < 2; ++i) {  // one client after the other
    const std::unique_ptr<Connection> client = ConnectTcp(listener->address());
    ASSERT_NE(client, nullptr);
    absl::StatusOr<std::unique_ptr<Connection>> server = listener->Accept();
    ASSERT_TRUE(server.ok());
    char bytes[4];
    EXPECT_EQ((*server)->Read(absl::MakeSpan(bytes), /*wait=*/false).value(), 0u);
    ASSERT_TRUE(client->Write("ping").ok());
    EXPECT_EQ(ReadSome(**server), "ping");
    ASSERT_TRUE((*server)->Write("pong").ok());
    EXPECT_EQ(ReadSome(*client), "pong");
  }
}

TEST(TransportTest, ClosedConnectionIsUnavailableBothWays) {
  absl::StatusOr<Listener> listener = Listener::Tcp("");
  ASSERT_TRUE(listener.ok());
  std::unique_ptr<Connection> client = ConnectTcp(listener->address());
  absl::StatusOr<std::unique_ptr<Connection>> server = listener->Accept();
  ASSERT_TRUE(server.ok());
  client.reset();
  char bytes[4];
  EXPECT_TRUE(absl::IsUnavailable((*server)->Read(absl::MakeSpan(bytes), true).status()));
  absl::Status status;
  // The first writes may still fit into a buffer.
  for (int i = 0; i < 1000 && status.ok(); ++i) status = (*server)->Write(std::string(4096, 'x'));
  EXPECT_TRUE(absl::IsUnavailable(status));
}

TEST(TransportTest, BadAddressesAreRejected) {
  for (const char* where : {"127.0.0.1:x", "127.0.0.1:65536", "127.0.0.1:-1", "host.invalid:0"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Listener::Tcp(where).status())) << where;
  }
  EXPECT_FALSE(Listener::Tcp("192.0.2.1:0").ok());  // no address of this machine
}

TEST(TransportTest, PortInUseIsAnError) {
  absl::StatusOr<Listener> listener = Listener::Tcp("");
  ASSERT_TRUE(listener.ok());
  EXPECT_FALSE(Listener::Tcp(listener->address()).ok());
}

TEST(TransportTest, UnixSocketIsForThisUserAndGoesAway) {
  const TemporaryDirectory directory;
  const std::string path = directory.File("socket");
  {
    absl::StatusOr<Listener> listener = Listener::Unix(path);
    ASSERT_TRUE(listener.ok()) << listener.status();
    EXPECT_EQ(listener->address(), path);
    struct stat info {};
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    const std::unique_ptr<Connection> client = ConnectUnix(path);
    ASSERT_NE(client, nullptr);
    absl::StatusOr<std::unique_ptr<Connection>> server = listener->Accept();
    ASSERT_TRUE(server.ok());
    ASSERT_TRUE(client->Write("ping").ok());
    EXPECT_EQ(ReadSome(**server), "ping");
    EXPECT_FALSE(Listener::Unix(path).ok());  // somebody listens there
  }
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

TEST(TransportTest, UnixReplacesAnAbandonedSocketButNoFile) {
  const TemporaryDirectory directory;
  const std::string path = directory.File("abandoned");
  {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM, 0));
    ASSERT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  EXPECT_TRUE(Listener::Unix(path).ok());
  std::ofstream(path) << "precious";
  EXPECT_FALSE(Listener::Unix(path).ok());
  EXPECT_EQ(access(path.c_str(), F_OK), 0);
  unlink(path.c_str());
}

TEST(TransportTest, UnixPathMustFit) {
  EXPECT_TRUE(absl::IsInvalidArgument(Listener::Unix("").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Listener::Unix(std::string(200, 'x')).status()));
}

TEST(TransportTest, PipesServeAsWell) {
  int to[2], from[2];
  ASSERT_EQ(pipe(to), 0);
  ASSERT_EQ(pipe(from), 0);
  Connection server{UniqueFd(to[0]), UniqueFd(from[1])};
  Connection client{UniqueFd(from[0]), UniqueFd(to[1])};
  ASSERT_TRUE(client.Write("ping").ok());
  EXPECT_EQ(ReadSome(server), "ping");
  ASSERT_TRUE(server.Write("pong").ok());
  EXPECT_EQ(ReadSome(client), "pong");
}

}  // namespace
}  // namespace hindsight
