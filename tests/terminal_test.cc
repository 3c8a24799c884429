// What a user sees of a recording in a terminal: the real one of the kernel, with a session.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/unique_fd.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Only bounds a hang.
constexpr absl::Duration kPatience = absl::Seconds(100);

// What the lines of a terminal show that understands line ends and "erase to the end of the line".
std::vector<std::string> Screen(const std::string& bytes) {
  std::vector<std::string> lines(1);
  size_t column = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] == '\r') {
      column = 0;
    } else if (bytes[i] == '\n') {
      lines.emplace_back();
    } else if (bytes[i] == '\x1b' && i + 1 < bytes.size() && bytes[i + 1] == '[') {
      for (i += 2; i < bytes.size() && !absl::ascii_isalpha(bytes[i]);) ++i;
      if (i < bytes.size() && bytes[i] == 'K') lines.back().resize(column);
    } else {
      lines.back().resize(std::max(lines.back().size(), column + 1), ' ');
      lines.back()[column++] = bytes[i];
    }
  }
  return lines;
}

// `hindsight record OPTIONS -- PROGRAM` as the foreground of a terminal.
class TerminalRun {
 public:
  TerminalRun(const std::vector<std::string>& options, const std::vector<std::string>& program) {
    std::vector<std::string> argv = RecordCommand();
    argv.insert(argv.end(), {"-o", directory_.File("trace")});
    argv.insert(argv.end(), options.begin(), options.end());
    argv.push_back("--");
    argv.insert(argv.end(), program.begin(), program.end());
    std::vector<char*> pointers;
    for (std::string& argument : argv) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    int master = -1;
    winsize size = {.ws_row = 25, .ws_col = 200};
    child_ = forkpty(&master, nullptr, nullptr, &size);
    if (child_ == 0) {
      setenv("TERM", "xterm", 1);
      setenv("PS1", "mine> ", 1);
      execv(pointers[0], pointers.data());
      _exit(127);
    }
    master_ = UniqueFd(master);
  }
  ~TerminalRun() {
    if (child_ <= 0) return;
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }

  void Type(const std::string& text) {
    ASSERT_EQ(write(master_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  // Whether it comes, now or before.
  bool WaitFor(const std::string& text) {
    const absl::Time deadline = absl::Now() + kPatience;
    while (!absl::StrContains(bytes_, text)) {
      if (absl::Now() > deadline || !Pump(absl::Seconds(1))) return false;
    }
    return true;
  }
  void WatchFor(absl::Duration time) {
    const absl::Time deadline = absl::Now() + time;
    while (absl::Now() < deadline && Pump(deadline - absl::Now())) {
    }
  }
  // The screen when it has ended.
  std::vector<std::string> Finish() {
    const absl::Time deadline = absl::Now() + kPatience;
    while (absl::Now() < deadline && Pump(absl::Seconds(1))) {
    }
    return Screen(bytes_);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  // False once no process has the terminal open.
  bool Pump(absl::Duration time) {
    pollfd ready = {master_.get(), POLLIN, 0};
    if (poll(&ready, 1, static_cast<int>(absl::ToInt64Milliseconds(time)) + 1) <= 0) return true;
    char buffer[4096];
    const ssize_t size = read(master_.get(), buffer, sizeof(buffer));
    if (size > 0) bytes_.append(buffer, size);
    return size > 0;
  }

  const TempDir directory_;
  pid_t child_ = -1;
  UniqueFd master_;
  std::string bytes_;
};

// Shells without end: until the file `stop` is there.
class TerminalTest : public testing::Test {
 protected:
  std::string Compute() const {
    return absl::StrCat("while [ ! -e ", directory_.File("stop"), " ]; do i=$((i+1)); done; ");
  }
  void LetGoOn() const { WriteFile(directory_.File("stop"), ""); }

  const TempDir directory_;
};

constexpr char kProgress[] = "hindsight: recording: ";

TEST_F(TerminalTest, AQuietComputationHasAProgressLineThatIsGoneAtTheEnd) {
  TerminalRun run({}, {"/bin/sh", "-c", Compute()});
  EXPECT_TRUE(run.WaitFor(kProgress));
  LetGoOn();
  const std::vector<std::string> screen = run.Finish();
  EXPECT_THAT(screen, ElementsAre(HasSubstr("M instructions"), ""));
  EXPECT_THAT(screen[0], Not(HasSubstr("recording:")));
}

TEST_F(TerminalTest, WhatTheProgramPrintsIsAloneOnItsLines) {
  TerminalRun run({},
                  {"/bin/sh", "-c", "echo before; " + Compute() + "echo after; echo again >&2"});
  EXPECT_TRUE(run.WaitFor(kProgress));
  LetGoOn();
  EXPECT_THAT(run.Finish(),
              ElementsAre("before", "after", "again", HasSubstr("M instructions"), ""));
}

TEST_F(TerminalTest, TheBeginningOfALineIsLeftAlone) {
  TerminalRun run({}, {"/bin/sh", "-c", "printf 'working ... '; " + Compute() + "echo done"});
  EXPECT_TRUE(run.WaitFor("working"));
  run.WatchFor(absl::Seconds(3));
  EXPECT_THAT(run.bytes(), Not(HasSubstr(kProgress)));
  LetGoOn();
  EXPECT_THAT(run.Finish(), ElementsAre("working ... done", HasSubstr("M instructions"), ""));
}

TEST_F(TerminalTest, APromptStaysIntact) {
  TerminalRun run({}, {"/bin/bash", "-c", "read -p 'name? ' name; echo \"hello, $name\""});
  EXPECT_TRUE(run.WaitFor("name? "));
  run.WatchFor(absl::Seconds(3));
  EXPECT_THAT(Screen(run.bytes()), ElementsAre("name? "));
  run.Type("you\n");
  EXPECT_THAT(run.Finish(),
              ElementsAre("name? you", "hello, you", HasSubstr("M instructions"), ""));
}

// Input without a prompt, while another process computes.
TEST_F(TerminalTest, WhoReadsHasTheTerminalForItself) {
  TerminalRun run({}, {"/bin/sh", "-c", "(" + Compute() + ")& read name; echo \"hello, $name\""});
  run.WatchFor(absl::Seconds(3));
  EXPECT_THAT(Screen(run.bytes()), ElementsAre(""));
  run.Type("you\n");
  EXPECT_TRUE(run.WaitFor("hello, you"));
  LetGoOn();
  EXPECT_THAT(run.bytes(), Not(HasSubstr(kProgress)));
}

TEST_F(TerminalTest, InteractiveProgramsAreLeftAlone) {
  const std::vector<std::vector<std::string>> programs = {
      {"/bin/bash", "--norc", "--noprofile", "-i"}, {"/usr/bin/python3", "-qI"}};
  for (const std::vector<std::string>& program : programs) {
    const std::string prompt = program[0] == "/bin/bash" ? "mine> " : ">>> ";
    TerminalRun run({}, program);
    EXPECT_TRUE(run.WaitFor(prompt)) << program[0];
    run.WatchFor(absl::Seconds(2));
    run.Type(program[0] == "/bin/bash" ? "echo $((6 * 7))\n" : "6 * 7\n");
    EXPECT_TRUE(run.WaitFor("42\r\n")) << program[0];
    run.WatchFor(absl::Seconds(1));
    run.Type(program[0] == "/bin/bash" ? "exit\n" : "exit()\n");
    run.Finish();
    // Until the first prompt it is a quiet computation.
    const std::string session = run.bytes().substr(run.bytes().find(prompt));
    EXPECT_THAT(session, Not(HasSubstr(kProgress))) << program[0];
    for (const std::string& line : Screen(run.bytes())) {
      EXPECT_THAT(line, Not(HasSubstr("recording:"))) << program[0];
    }
  }
}

// An interactive shell makes itself the foreground process group.
TEST_F(TerminalTest, TheLineIsGoneWhenTheProgramTakesTheTerminal) {
  TerminalRun run({}, {"/bin/sh", "-c", Compute() + "exec /bin/bash --norc --noprofile -i"});
  EXPECT_TRUE(run.WaitFor(kProgress));
  LetGoOn();
  EXPECT_TRUE(run.WaitFor("mine> "));
  run.Type("exit\n");
  for (const std::string& line : run.Finish()) EXPECT_THAT(line, Not(HasSubstr("recording:")));
}

TEST_F(TerminalTest, WhereAChildIsNotRecordedNothingIsShown) {
  TerminalRun run({"--children=none"},
                  {"/bin/sh", "-c", "/bin/echo child; " + Compute() + "echo done"});
  EXPECT_TRUE(run.WaitFor("child"));
  run.WatchFor(absl::Seconds(3));
  EXPECT_THAT(run.bytes(), Not(HasSubstr(kProgress)));
  LetGoOn();
  EXPECT_THAT(run.Finish(), ElementsAre("child", "done", HasSubstr("M instructions"), ""));
}

TEST_F(TerminalTest, ASearchShowsItsRunsBetweenTheOutputOfThem) {
  TerminalRun run({"--until-failure=2"},
                  {"/bin/sh", "-c", "printf 'no end of line'; " + Compute() + "echo; echo end"});
  EXPECT_TRUE(run.WaitFor("hindsight: run 1 of at most 2"));
  EXPECT_TRUE(run.WaitFor("no end"));
  run.WatchFor(absl::Seconds(1));
  LetGoOn();
  EXPECT_THAT(run.Finish(), ElementsAre("no end of line", "end", "no end of line", "end",
                                        "hindsight: none of 2 runs failed", ""));
}

}  // namespace
}  // namespace hindsight::e2e
