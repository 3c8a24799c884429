// Instructions are counted as the processor counts them.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "recorder/translate/translated_fixture.h"

namespace hindsight {
namespace {

constexpr char kProgram[] = "recorder/translate/testdata/counted";

// Single-steps the program to its end. A repeated string instruction, which stops after each of its
// parts, is one. The last instruction, which does not return, is not counted.
uint64_t CountByStepping() {
  const pid_t process = fork();
  if (process == 0) {
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
    execl(kProgram, kProgram, nullptr);
    _exit(127);
  }
  uint64_t count = 0, last = 0;
  int status = 0;
  waitpid(process, &status, 0);
  while (WIFSTOPPED(status)) {
    user_regs_struct registers;
    ptrace(PTRACE_GETREGS, process, nullptr, &registers);
    if (last != 0 && registers.rip != last) ++count;
    last = registers.rip;
    ptrace(PTRACE_SINGLESTEP, process, nullptr, nullptr);
    waitpid(process, &status, 0);
  }
  return count;
}

TEST(CountTest, CountsAreThoseOfSingleSteps) {
  const uint64_t expected = CountByStepping();
  ASSERT_GT(expected, 1000u);
  for (const char* flags : {"", "--block=1", "--block=2", "--block=7", "--flush=2"}) {
    const CommandResult result =
        RunCommand(Translated(std::string("--report ") + flags) + kProgram);
    EXPECT_EQ(result.out, "ZZZ");
    EXPECT_EQ(ReportedInstructions(result), expected) << flags;
  }
}

}  // namespace
}  // namespace hindsight
