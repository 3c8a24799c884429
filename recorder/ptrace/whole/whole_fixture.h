// A program of recorder/testdata that runs until its input ends, as a child or as a stranger.

#ifndef HINDSIGHT_RECORDER_PTRACE_WHOLE_WHOLE_FIXTURE_H_
#define HINDSIGHT_RECORDER_PTRACE_WHOLE_WHOLE_FIXTURE_H_

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "recorder/ptrace/whole/process_stop.h"

namespace hindsight {

// A program that is built beside the test.
inline std::string TestProgram(const std::string& name) {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  const std::string self(path, length > 0 ? static_cast<size_t>(length) : 0);
  return self.substr(0, self.rfind('/')) + "/../../testdata/" + name;
}

class RunningProgram {
 public:
  // `stranger`: it is not a child of this process.
  RunningProgram(const std::vector<std::string>& arguments, bool stranger) {
    int in[2], out[2];
    EXPECT_EQ(pipe(in) | pipe(out), 0);
    child_ = fork();
    if (child_ == 0) {
      dup2(in[0], 0);
      dup2(out[1], 1);
      for (const int fd : {in[0], in[1], out[0], out[1]}) close(fd);
      if (stranger) RunBelow();
      std::vector<char*> argv;
      for (const std::string& argument : arguments) {
        argv.push_back(const_cast<char*>(argument.c_str()));
      }
      argv.push_back(nullptr);
      execv(argv[0], argv.data());
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    in_ = in[1];
    out_ = fdopen(out[0], "r");
  }
  ~RunningProgram() {
    if (child_ != 0) kill(child_, SIGKILL);
    if (in_ >= 0) close(in_);
    std::fclose(out_);
  }

  std::string ReadLine() {
    char line[4096];
    return std::fgets(line, sizeof(line), out_) == nullptr ? "" : line;
  }
  // Ends its input. What it has printed since, and its status as wait reports it.
  std::string Finish(int* status) {
    close(in_);
    in_ = -1;
    std::string rest;
    for (std::string line = ReadLine(); !line.empty(); line = ReadLine()) rest += line;
    waitpid(child_, status, 0);
    child_ = 0;
    return rest;
  }
  // The direct child: the program itself unless it is a stranger.
  pid_t child() const { return child_; }

 private:
  // Returns in a child, and exits like it.
  static void RunBelow() {
    const pid_t program = fork();
    if (program == 0) return;
    close(0);
    close(1);
    int status = 0;
    waitpid(program, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128);
  }

  pid_t child_ = 0;
  int in_ = -1;
  std::FILE* out_ = nullptr;
};

inline std::unique_ptr<ProcessStop> StopProcess(pid_t process) {
  Stragglers stragglers;
  auto stop = ProcessStop::Make(process, std::chrono::seconds(20), &stragglers);
  EXPECT_TRUE(stop.ok()) << stop.status();
  return stop.ok() ? *std::move(stop) : nullptr;
}

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PTRACE_WHOLE_WHOLE_FIXTURE_H_
