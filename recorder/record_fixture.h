// A program that is recorded by the recorder itself, for tests: the trace is verified, what it
// printed and how it ended is kept.
//
// Not thread-safe: it stands in for this process's standard output meanwhile.

#ifndef HINDSIGHT_RECORDER_RECORD_FIXTURE_H_
#define HINDSIGHT_RECORDER_RECORD_FIXTURE_H_

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "gtest/gtest.h"
#include "keyframes/verify/verify.h"
#include "recorder/record.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

// Stands in for a file descriptor of this process while alive.
class Redirection {
 public:
  Redirection(int fd, const std::string& path) : fd_(fd), saved_(fcntl(fd, F_DUPFD_CLOEXEC, 10)) {
    UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    dup2(file.get(), fd);
  }
  ~Redirection() { dup2(saved_.get(), fd_); }

 private:
  const int fd_;
  UniqueFd saved_;
};

inline std::string Contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

inline std::string Program(const std::string& name) { return "recorder/testdata/" + name; }

class RecordTest : public testing::Test {
 protected:
  RecordTest() {
    // A sanitizer of the program's own would look for leaks at its end, which it cannot do while
    // the program is traced.
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
    directory_ = testing::TempDir() + "/record_test." + std::to_string(getpid());
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
    options_.directory = directory_ + "/trace";
  }
  ~RecordTest() override { std::filesystem::remove_all(directory_); }

  // Records; what the program printed is in output_.
  void Record(std::vector<std::string> arguments) {
    options_.arguments = std::move(arguments);
    absl::StatusOr<RecordResult> result = absl::UnknownError("not run");
    {
      fflush(stdout);
      Redirection standard_output(STDOUT_FILENO, directory_ + "/out");
      Redirection standard_error(STDERR_FILENO, directory_ + "/err");
      result = RecordProgram(options_);
    }
    output_ = Contents(directory_ + "/out");
    errors_ = Contents(directory_ + "/err");
    ASSERT_TRUE(result.ok()) << result.status();
    result_ = *result;
  }

  std::string NativeOutput(const std::string& command) {
    EXPECT_NE(system((command + " > " + directory_ + "/native").c_str()), -1);
    return Contents(directory_ + "/native");
  }

  // Replays the recording.
  void ExpectExact() {
    auto trace = TraceReader::Open(options_.directory);
    ASSERT_TRUE(trace.ok()) << trace.status();
    auto verified = Verify(**trace);
    ASSERT_TRUE(verified.ok()) << verified.status();
    EXPECT_TRUE(verified->exact()) << verified->difference;
    if (result_.processes == 1) {
      EXPECT_EQ(verified->states, result_.instructions);
    }
  }

  std::vector<ProcessEvent> Events(EventKind kind) {
    std::vector<ProcessEvent> events;
    auto trace = TraceReader::Open(options_.directory);
    EXPECT_TRUE(trace.ok()) << trace.status();
    for (const ProcessEvent& event : (*trace)->events()) {
      if (event.kind == kind) events.push_back(event);
    }
    return events;
  }

  std::string directory_;
  RecordOptions options_;
  RecordResult result_;
  std::string output_, errors_;
};

// Does `act` once the program has printed its first line.
class Bystander {
 public:
  Bystander(std::string output, std::function<void()> act)
      : thread_([output = std::move(output), act = std::move(act)] {
          while (Contents(output).empty())
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          act();
        }) {}
  ~Bystander() { thread_.join(); }

 private:
  std::thread thread_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_RECORD_FIXTURE_H_
