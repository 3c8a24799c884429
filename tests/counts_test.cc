// Both engines count the same instructions: where one of them reaches a system call, so does the
// other.

#include <gtest/gtest.h>
#include <stdint.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

struct CountedCall {
  uint64_t count = 0;  // instructions before it
  std::string name;
};

// "  22332 syscall sequence 1 thread 6374 brk(0, ...", in `hindsight dump`.
bool ParseCall(const std::string& line, CountedCall* call) {
  const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
  if (words.size() < 7 || words[1] != "syscall" || words[2] != "sequence") return false;
  call->name = words[6].substr(0, words[6].find('('));
  return absl::SimpleAtoi(words[0], &call->count);
}

std::vector<CountedCall> CallsOf(const std::vector<std::string>& program,
                                 const std::string& engine) {
  const TempDir directory;
  const std::string trace = directory.File("trace");
  std::vector<std::string> command = {
      "record", "--quiet", "--engine=" + engine, "--cpu=portable", "-o", trace, "--"};
  command.insert(command.end(), program.begin(), program.end());
  RunHindsight(command);
  std::vector<CountedCall> calls;
  for (const auto line : absl::StrSplit(RunHindsight({"dump", trace}).out, '\n')) {
    CountedCall call;
    if (ParseCall(std::string(line), &call)) calls.push_back(std::move(call));
  }
  return calls;
}

TEST(CountsTest, BothEnginesReachSystemCallsAfterAsManyInstructions) {
  const std::vector<std::string> programs[] = {{Program("strings")},
                                               {Program("numbers")},
                                               {Program("hello_static"), "one"},
                                               {"/bin/ls", "/"},
                                               {"/usr/bin/sort", "/etc/services"}};
  for (const auto& program : programs) {
    const auto emulated = CallsOf(program, "emulate"), translated = CallsOf(program, "translate");
    ASSERT_GT(emulated.size(), 5u) << program[0];
    ASSERT_EQ(emulated.size(), translated.size()) << program[0];
    for (size_t i = 1; i < emulated.size(); ++i) {
      EXPECT_EQ(emulated[i].name, translated[i].name) << program[0] << ", call " << i;
      const auto one = static_cast<int64_t>(emulated[i].count - emulated[i - 1].count);
      const auto other = static_cast<int64_t>(translated[i].count - translated[i - 1].count);
      // Corrections count like an instruction; numbers of processes and random bytes take more
      // or fewer of them.
      EXPECT_LE(std::abs(one - other), 10 + one / 1000)
          << program[0] << ", call " << i << ": " << one << " and " << other
          << " instructions before " << emulated[i].name;
    }
  }
}

}  // namespace
}  // namespace hindsight::e2e
