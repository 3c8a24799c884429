// The recorder, or the program, is killed at a moment nobody has chosen: the trace is exact as far
// as it goes, and nothing that was started goes on.
//
// KILLS: how many times.

#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/test_seed.h"
#include "tests/harness/gdb.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

int Kills() {
  const char* const text = std::getenv("KILLS");
  int kills = 4;
  return text != nullptr && absl::SimpleAtoi(text, &kills) ? kills : 4;
}

std::vector<pid_t> ChildrenOf(pid_t process) {
  std::ifstream file(absl::StrCat("/proc/", process, "/task/", process, "/children"));
  std::vector<pid_t> children;
  for (pid_t child; file >> child;) children.push_back(child);
  return children;
}

// Processes that execute, or wait in, `program`.
int CountRunning(const std::string& program) {
  int count = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const auto link = std::filesystem::read_symlink(entry.path() / "exe", error);
    if (!error && link == program) ++count;
  }
  return count;
}

// A copy of its own, so that its processes are told from all others.
std::string CopyOfProgram(const TempDir& directory) {
  const std::string copy = directory.File("program_to_kill");
  std::filesystem::copy_file(Program("threads_and_children"), copy);
  return copy;
}

bool WaitUntilGone(const std::string& program) {
  for (int i = 0; i < 100; ++i) {
    if (CountRunning(program) == 0) return true;
    absl::SleepFor(absl::Milliseconds(100));
  }
  return false;
}

// A process may have been killed before there was anything to replay.
void ExpectExactIfBegun(const std::string& trace) {
  ChildOptions options;
  options.timeout = absl::Seconds(300);
  const ChildResult verify = RunHindsight({"verify", trace}, options);
  if (absl::EndsWith(verify.err, "the trace has no segments\n")) return;
  EXPECT_EQ(verify.Ending(), "exit 0") << verify.out << verify.err;
}

// Kills it, or the program that it records, after up to a second.
void KillOnce(bool kill_recorder, std::mt19937_64* random) {
  const TempDir directory;
  const std::string trace = directory.File("trace"), program = CopyOfProgram(directory);
  std::vector<std::string> command = RecordCommand();
  command.insert(command.end(), {"-o", trace, "--", program});
  Child recorder = Child::Start(command);
  absl::SleepFor(absl::Milliseconds((*random)() % 1000));
  if (kill_recorder) {
    recorder.Signal(SIGKILL);
  } else {
    for (const pid_t child : ChildrenOf(recorder.pid())) kill(child, SIGKILL);
  }
  const ChildResult result = recorder.Finish();
  EXPECT_TRUE(WaitUntilGone(program)) << result.err;
  if (std::filesystem::exists(trace + "/manifest")) ExpectExactIfBegun(trace);
}

TEST(KilledTest, TheRecorder) {
  std::mt19937_64 random(TestSeed());
  for (int i = 0; i < Kills() && !HasFailure(); ++i) KillOnce(/*kill_recorder=*/true, &random);
}

TEST(KilledTest, TheProgram) {
  std::mt19937_64 random(TestSeed());
  for (int i = 0; i < Kills() && !HasFailure(); ++i) KillOnce(/*kill_recorder=*/false, &random);
}

// Of a call that is there all that it has stored is, or it is not available: gdb looks at the last
// state.
TEST(KilledTest, AProgramThatReads) {
  const std::string script = R"(
continue
set $syscall = 0x050f
set $returned = *(unsigned short*)($pc - 2) == $syscall && $rax == 4096
set $number = memory.numbers[0]
printf "whole: %d\n", memory.numbers[511] == $number && (!$returned || wanted == $number)
)";
  std::mt19937_64 random(TestSeed());
  for (int i = 0; i < Kills() && !HasFailure(); ++i) {
    const TempDir directory;
    const std::string trace = directory.File("trace");
    std::vector<std::string> command = RecordCommand();
    command.insert(command.end(), {"-o", trace, "--", Program("reads_on")});
    Child recorder = Child::Start(command);
    const absl::Time end = absl::Now() + absl::Seconds(30);
    while (!std::filesystem::exists(trace + "/manifest")) {
      ASSERT_LT(absl::Now(), end) << "the recorder has not begun";
      absl::SleepFor(absl::Milliseconds(1));
    }
    absl::SleepFor(absl::Milliseconds(200 + random() % 100));
    for (const pid_t child : ChildrenOf(recorder.pid())) kill(child, SIGKILL);
    recorder.Finish();
    const GdbResult gdb = TryGdb(trace, script);
    EXPECT_TRUE(gdb.Answer("whole") == "1" ||
                absl::StrContains(gdb.text, "Cannot access memory at address"))
        << gdb.text;
  }
}

}  // namespace
}  // namespace hindsight::e2e
