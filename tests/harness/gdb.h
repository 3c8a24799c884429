// Driving the real gdb on a trace.

#ifndef HINDSIGHT_TESTS_HARNESS_GDB_H_
#define HINDSIGHT_TESTS_HARNESS_GDB_H_

#include <memory>
#include <string>
#include <vector>

#include "tests/harness/child.h"
#include "tests/harness/files.h"

namespace hindsight::e2e {

// What every gdb of a test is started with, before its target: no start-up files, no questions, no
// downloads, and the helpers of prelude.py.
std::vector<std::string> GdbArguments();

// What a gdb session said, both streams together in the order gdb wrote to each.
struct GdbResult {
  ChildResult child;
  std::string text;

  // The values of the lines "TAG: value".
  std::vector<std::string> Answers(const std::string& tag) const;
  // The only one, or a text that says how many there were.
  std::string Answer(const std::string& tag) const;
  // Lines of output that begin so, for the machine interface: without that.
  std::vector<std::string> Records(const std::string& start) const;
};

// Runs gdb commands at the start of the trace, by `hindsight replay TRACE FLAGS...`. Expects that
// none failed: gdb ends a script at the first command that fails.
GdbResult RunGdb(const std::string& trace, const std::string& script,
                 const std::vector<std::string>& flags = {});
// The same without expecting so.
GdbResult TryGdb(const std::string& trace, const std::string& script,
                 const std::vector<std::string>& flags = {});

// Runs gdb commands on a live program, stopped before its first instruction, as gdb starts it
// itself: what a recording is compared with. `argv`: the program, and its arguments as a shell
// reads them.
GdbResult RunGdbOnProgram(const std::vector<std::string>& argv, const std::string& script);

// gdb as everybody starts it on a core file of `program`, with these commands.
GdbResult RunGdbOnCore(const std::string& program, const std::string& core,
                       const std::vector<std::string>& commands);

// A `hindsight serve --unix=...` that runs until this ends.
class Server {
 public:
  explicit Server(const std::string& trace);
  const std::string& socket() const { return socket_; }

  // Runs gdb commands, connected to this server.
  GdbResult RunGdb(const std::string& script);
  // Runs commands of gdb's machine interface, as development environments do. The line N of
  // `commands`, from 1, is answered with "N^..." in the result's output.
  GdbResult RunMi(const std::string& commands);
  // A gdb that runs `script` while the test does something else.
  Child StartGdb(const std::string& script);

 private:
  TempDir directory_{"/tmp"};
  std::string socket_;
  std::unique_ptr<Child> child_;
  int scripts_ = 0;
};

}  // namespace hindsight::e2e

#endif  // HINDSIGHT_TESTS_HARNESS_GDB_H_
