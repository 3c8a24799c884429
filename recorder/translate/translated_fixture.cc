#include "recorder/translate/translated_fixture.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>

namespace hindsight {
namespace {

std::string TakeFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  unlink(path.c_str());
  return text.str();
}

std::string ScratchPath(const char* name) {
  const char* folder = getenv("TEST_TMPDIR");
  return std::string(folder == nullptr ? "/tmp" : folder) + "/" + name + std::to_string(getpid());
}

}  // namespace

std::ostream& operator<<(std::ostream& stream, const CommandResult& result) {
  return stream << "status " << result.status << "\nout:\n"
                << result.out << "\nerr:\n"
                << result.err;
}

CommandResult RunCommand(const std::string& command) {
  const std::string out = ScratchPath("out"), err = ScratchPath("err");
  const int status =
      system(("timeout -s KILL 100 sh -c '" + command + "' > " + out + " 2> " + err).c_str());
  return {TakeFile(out), TakeFile(err), WIFEXITED(status) ? WEXITSTATUS(status) : -1};
}

std::string Translated(const std::string& flags) {
  return "recorder/translate/run_translated " + flags + " ";
}

uint64_t ReportedInstructions(const CommandResult& result) {
  unsigned long count = 0;
  std::sscanf(result.err.c_str(), "instructions %lu", &count);
  return count;
}

void ExpectSameTranslated(const std::string& program, const std::string& flags) {
  const CommandResult native = RunCommand(program);
  EXPECT_EQ(RunCommand(Translated(flags) + program), native) << flags << " " << program;
}

}  // namespace hindsight
