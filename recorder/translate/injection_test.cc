#include "recorder/translate/injection.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "recorder/process/program_lookup.h"
#include "recorder/ptrace/tracee.h"

namespace hindsight {
namespace {

struct Outcome {
  std::string output;
  int wait_status = 0;
};

std::string ReadAll(int fd) {
  std::string text;
  char buffer[4096];
  lseek(fd, 0, SEEK_SET);
  for (ssize_t got; (got = read(fd, buffer, sizeof(buffer))) > 0;) text.append(buffer, got);
  return text;
}

int WaitForEnd(pid_t process) {
  int status = -1;
  waitpid(process, &status, 0);
  return status;
}

// Runs `start`, which begins a program and returns its pid, with the output of both in a file.
template <typename Start>
Outcome Capture(Start start) {
  const UniqueFd file(memfd_create("output", MFD_CLOEXEC)), saved(dup(STDOUT_FILENO));
  fflush(stdout);
  fcntl(saved.get(), F_SETFD, FD_CLOEXEC);
  dup2(file.get(), STDOUT_FILENO);
  const pid_t process = start();
  dup2(saved.get(), STDOUT_FILENO);
  const int status = process > 0 ? WaitForEnd(process) : -1;
  return {ReadAll(file.get()), status};
}

Outcome RunNatively(const ExecCommand& command) {
  return Capture([&] {
    std::vector<char*> argv;
    for (const std::string& word : command.arguments)
      argv.push_back(const_cast<char*>(word.data()));
    argv.push_back(nullptr);
    const pid_t process = fork();
    if (process == 0) {
      execv(command.path.c_str(), argv.data());
      _exit(127);
    }
    return process;
  });
}

Outcome RunInjected(const ExecCommand& command) {
  return Capture([&]() -> pid_t {
    auto tracee = Tracee::Launch(command, AddressLayout::kUpward);
    EXPECT_TRUE(tracee.ok()) << tracee.status();
    if (!tracee.ok()) return -1;
    const pid_t process = (*tracee)->process();
    const auto file = Inject({.translate = false}, tracee->get());
    EXPECT_TRUE(file.ok()) << file.status();
    return file.ok() ? process : -1;
  });
}

void ExpectSame(const std::vector<std::string>& arguments) {
  const auto command = LookUpProgram(arguments);
  ASSERT_TRUE(command.ok()) << command.status();
  const Outcome native = RunNatively(*command), injected = RunInjected(*command);
  EXPECT_EQ(injected.output, native.output);
  EXPECT_EQ(injected.wait_status, native.wait_status);
}

class StartTest : public testing::TestWithParam<const char*> {
 protected:
  std::string path() const {
    return std::string("recorder/translate/testdata/start_facts") + GetParam();
  }
};

TEST_P(StartTest, ProgramsFindWhatTheyFindNatively) {
  ExpectSame({path()});
  ExpectSame({path(), "one", "", std::string(100'000, 'x')});
}

TEST_P(StartTest, AnEmptyEnvironmentIsOne) {
  ExpectSame({"/usr/bin/env", "-i", path(), "argument"});
}

INSTANTIATE_TEST_SUITE_P(Kinds, StartTest, testing::Values("", "_fixed", "_static", "_static_pie"));

TEST(InjectionTest, InstalledProgramsRun) {
  ExpectSame({"ls", "-l", "/usr"});
  ExpectSame(
      {"python3", "-c", "import os, sys; print(sys.argv, len(os.listdir('/proc/self/fd')))"});
  ExpectSame({"sh", "-c", "ulimit -s; exit 3"});
  ExpectSame({"sh", "-c", "kill -TERM $$"});
}

TEST(InjectionTest, NothingTracesTheProgramAfterwards) {
  ExpectSame({"grep", "TracerPid", "/proc/self/status"});
}

}  // namespace
}  // namespace hindsight
