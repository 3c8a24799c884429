// Which clients are served, with real clients at a real server.

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/unique_fd.h"
#include "tests/harness/gdb.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string& Steps() {
  static const Recorded* recorded = new Recorded({Program("steps")});
  return recorded->trace();
}

// A `hindsight serve` on TCP.
class TcpServer {
 public:
  explicit TcpServer(const std::vector<std::string>& flags = {}) {
    std::vector<std::string> words = {Hindsight(), "serve", Steps()};
    words.insert(words.end(), flags.begin(), flags.end());
    child_.emplace(Child::Start(words));
    size_t position = 0;
    EXPECT_TRUE(child_->WaitForOut("listening on ", &position)) << child_->err();
    const size_t begin = position;
    EXPECT_TRUE(child_->WaitForOut("\n", &position));
    const std::string line = child_->out().substr(begin, position - 1 - begin);
    port_ = line.substr(line.rfind(':') + 1);
  }
  ~TcpServer() { child_->Signal(SIGTERM); }

  const std::string& port() const { return port_; }
  Child& child() { return *child_; }
  std::string Pid() const { return InfoField(Steps(), "pid"); }

  Child StartGdb(const std::vector<std::string>& commands, std::vector<std::string> before = {}) {
    std::vector<std::string> words = std::move(before);
    for (const char* word : {"gdb", "-nx", "-q", "-batch"}) words.push_back(word);
    for (const std::string& command : commands) {
      words.push_back("-ex");
      words.push_back(command);
    }
    return Child::Start(words);
  }
  // What gdb says, both streams.
  std::string Gdb(const std::vector<std::string>& commands, std::vector<std::string> before = {}) {
    const ChildResult result = StartGdb(commands, std::move(before)).Finish();
    EXPECT_FALSE(result.timed_out);
    return result.out + result.err;
  }
  std::string Target() const { return "target remote :" + port_; }

 private:
  std::optional<Child> child_;
  std::string port_;
};

TEST(ConnectionsTest, TheOrdinaryWayWorks) {
  TcpServer server;
  EXPECT_THAT(server.Gdb({server.Target(), "stepi", "reverse-stepi", "print $pc != 0"}),
              HasSubstr("= 1"));
}

TEST(ConnectionsTest, ABrowsersRequestIsDropped) {
  TcpServer server;
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(server.port())));
  ASSERT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  // With a packet in its body.
  const std::string post = "POST / HTTP/1.1\r\nContent-Length: 20\r\n\r\n$qSupported#37$?#3f";
  ASSERT_EQ(send(fd.get(), post.data(), post.size(), 0), static_cast<ssize_t>(post.size()));
  char byte;
  EXPECT_LE(recv(fd.get(), &byte, 1, 0), 0);
  size_t position = 0;
  EXPECT_TRUE(server.child().WaitForErr("POST / HTTP", &position));
  EXPECT_THAT(server.Gdb({server.Target(), "print $pc != 0"}), HasSubstr("= 1"));
}

TEST(ConnectionsTest, ASecondGdbIsToldAndTakesOver) {
  TcpServer server;
  Child first = server.StartGdb({server.Target(), "stepi", "echo ready\\n", "shell sleep 60"});
  size_t position = 0;
  ASSERT_TRUE(first.WaitForOut("ready", &position)) << first.err();
  const std::string told = server.Gdb({server.Target(), "print $pc != 0"});
  EXPECT_THAT(told, HasSubstr("another debugger is connected, idle for"));
  EXPECT_THAT(told, HasSubstr("connect again within"));
  EXPECT_THAT(told, Not(HasSubstr("= 1")));
  EXPECT_THAT(server.Gdb({server.Target(), "print $pc != 0"}), HasSubstr("= 1"));
}

TEST(ConnectionsTest, AnotherUsersGdbIsRefused) {
  if (getuid() != 0) GTEST_SKIP() << "only root can be another user";
  TcpServer server;
  const std::string said =
      server.Gdb({server.Target(), "print $pc != 0"},
                 {"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"});
  EXPECT_THAT(said, HasSubstr("for the processes of the user who started it"));
  EXPECT_THAT(said, Not(HasSubstr("= 1")));
}

TEST(ConnectionsTest, AnotherUsersGdbIsServedIfItKnowsTheToken) {
  if (getuid() != 0) GTEST_SKIP() << "only root can be another user";
  const TempDir directory;
  WriteFile(directory.File("token"), "0123456789abcdef\n");
  TcpServer server({"--token-file=" + directory.File("token")});
  const std::vector<std::string> other = {"setpriv", "--reuid=65534", "--regid=65534",
                                          "--clear-groups"};
  const std::string target = "target extended-remote :" + server.port();
  const std::string attach = "attach " + server.Pid();
  const std::string wrong = server.Gdb(
      {target, "monitor token 0123456789abcdeX", "monitor info", attach, "print $pc != 0"}, other);
  EXPECT_THAT(wrong, HasSubstr("say 'monitor token"));
  EXPECT_THAT(wrong, Not(HasSubstr("= 1")));
  EXPECT_THAT(wrong, Not(HasSubstr("programs/steps")));
  const std::string right = server.Gdb({target, "monitor token 0123456789abcdef", attach, "stepi",
                                        "reverse-stepi", "print $pc != 0", "monitor info"},
                                       other);
  EXPECT_THAT(right, HasSubstr("= 1"));
  EXPECT_THAT(right, HasSubstr("programs/steps"));
}

}  // namespace
}  // namespace hindsight::e2e
