// The commands that read a trace run confined, whatever the trace holds.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/unique_fd.h"
#include "tests/harness/gdb.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

using ::testing::HasSubstr;

const std::string& Steps() {
  static const Recorded* recorded = new Recorded({Program("steps")});
  return recorded->trace();
}

bool IsConfined(pid_t pid) {
  const std::string status = ReadFile(absl::StrCat("/proc/", pid, "/status"));
  return absl::StrContains(status, "NoNewPrivs:\t1\n") &&
         absl::StrContains(status, "Seccomp:\t2\n");
}

// Runs `hindsight ARGUMENTS...` with an output that takes nothing, so that it cannot end; whether
// it becomes confined.
bool BecomesConfined(const std::vector<std::string>& arguments, int seconds = 60) {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd read_end(ends[0]), write_end(ends[1]);
  fcntl(write_end.get(), F_SETFL, O_NONBLOCK);
  const std::string bytes(4096, 'x');
  while (write(write_end.get(), bytes.data(), bytes.size()) > 0) continue;
  fcntl(write_end.get(), F_SETFL, 0);
  std::vector<std::string> words = {Hindsight()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  const pid_t child = fork();
  if (child == 0) {
    dup2(write_end.get(), STDOUT_FILENO);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(127);
  }
  bool confined = false;
  for (int tries = 0; tries < 100 * seconds && !confined; ++tries) {
    int status;
    if (waitpid(child, &status, WNOHANG) == child) return false;
    confined = IsConfined(child);
    usleep(10'000);
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return confined;
}

TEST(ConfinementTest, EveryCommandThatReadsATraceIsConfined) {
  EXPECT_TRUE(BecomesConfined({"info", Steps()}));
  EXPECT_TRUE(BecomesConfined({"dump", Steps()}));
  EXPECT_TRUE(BecomesConfined({"verify", Steps()}));
  EXPECT_FALSE(BecomesConfined({"--help"}, 1));  // the method sees a difference
}

TEST(ConfinementTest, AServerIsConfinedWhileItServes) {
  for (const std::string way : {"--listen=127.0.0.1:0", "--stdio"}) {
    ChildOptions options;
    options.keep_input_open = true;
    Child server = Child::Start({Hindsight(), "serve", Steps(), way}, options);
    size_t position = 0;
    if (way == "--stdio") {
      server.Write("$qSupported#37");
    }
    ASSERT_TRUE(server.WaitForOut(way == "--stdio" ? "PacketSize" : "127.0.0.1:", &position))
        << server.err();
    EXPECT_TRUE(IsConfined(server.pid())) << way;
    EXPECT_EQ(server.err(), "") << way;
    server.Signal(SIGTERM);
    EXPECT_EQ(server.Finish().Ending(), "signal 15") << way;
  }
}

TEST(ConfinementTest, GdbItselfIsNotConfinedAndItsServerIs) {
  const GdbResult gdb = RunGdb(Steps(), R"(
python
import os
def field(pid, name):
    try:
        with open("/proc/%s/status" % pid) as status:
            return dict(line.split(":", 1) for line in status)[name].strip()
    except OSError:  # it has ended meanwhile
        return ""
own, parent = str(os.getpid()), str(os.getppid())
servers = [pid for pid in os.listdir("/proc")
           if pid.isdigit() and pid != own and field(pid, "PPid") == parent]
say("servers", len(servers))
say("server", field(servers[0], "Seccomp") + " " + field(servers[0], "NoNewPrivs"))
say("gdb", field(own, "Seccomp") + " " + field(own, "NoNewPrivs"))
say("shell", os.system("true"))
end
stepi
reverse-stepi
)");
  EXPECT_EQ(gdb.Answer("servers"), "1");
  EXPECT_EQ(gdb.Answer("server"), "2 1");
  EXPECT_EQ(gdb.Answer("gdb"), "0 0");
  EXPECT_EQ(gdb.Answer("shell"), "0");
}

// The server is waited for; who makes core files for it ends once it is gone.
TEST(ConfinementTest, NoServerIsLeftBehindByReplay) {
  RunGdb(Steps(), "stepi\n");
  std::string left;
  for (int tries = 0; tries < 1000; ++tries) {
    left.clear();
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string line = ReadFile(entry.path().string() + "/cmdline");
      if (absl::StrContains(line, "replay") && absl::StrContains(line, Steps())) left = line;
    }
    if (left.empty()) return;
    usleep(10'000);
  }
  ADD_FAILURE() << left;
}

TEST(ConfinementTest, TheSocketGoesWithItsServerHoweverThatEnds) {
  for (const int signal : {SIGTERM, SIGINT, SIGKILL}) {
    const TempDir directory("/tmp");
    const std::string path = directory.File("socket");
    Child server = Child::Start({Hindsight(), "serve", Steps(), "--unix=" + path});
    size_t position = 0;
    ASSERT_TRUE(server.WaitForOut("listening", &position)) << server.err();
    EXPECT_TRUE(std::filesystem::exists(path));
    server.Signal(signal);
    server.Finish();
    for (int tries = 0; tries < 1000 && std::filesystem::exists(path); ++tries) usleep(10'000);
    EXPECT_FALSE(std::filesystem::exists(path)) << signal;
  }
}

TEST(ConfinementTest, TheSocketGoesEvenIfAllOfTheServersGroupIsKilledAtOnce) {
  const TempDir directory("/tmp");
  const std::string path = directory.File("socket");
  Child server = Child::Start({Hindsight(), "serve", Steps(), "--unix=" + path});
  size_t position = 0;
  ASSERT_TRUE(server.WaitForOut("listening", &position)) << server.err();
  server.SignalGroup(SIGKILL);
  server.Finish();
  for (int tries = 0; tries < 1000 && std::filesystem::exists(path); ++tries) usleep(10'000);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(ConfinementTest, MemoryIsLimited) {
  const ChildResult result = RunHindsight({"verify", Steps(), "--max-memory=1M"});
  EXPECT_EQ(result.Ending(), "exit 1");
  EXPECT_THAT(result.err, HasSubstr("--max-memory"));
}

TEST(ConfinementTest, ALinkInATraceIsNotFollowed) {
  const TempDir directory;
  std::filesystem::copy(Steps(), directory.File("trace"), std::filesystem::copy_options::recursive);
  std::filesystem::rename(directory.File("trace/events"), directory.File("events"));
  std::filesystem::create_symlink("../events", directory.File("trace/events"));
  const ChildResult result = RunHindsight({"verify", directory.File("trace")});
  EXPECT_NE(result.Ending(), "exit 0") << result.out;
  EXPECT_THAT(result.err, HasSubstr("trace/events"));
}

}  // namespace
}  // namespace hindsight::e2e
