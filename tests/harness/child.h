// Child processes of a test: started with pipes, limited by a deadline, never left running.

#ifndef HINDSIGHT_TESTS_HARNESS_CHILD_H_
#define HINDSIGHT_TESTS_HARNESS_CHILD_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/unique_fd.h"

namespace hindsight::e2e {

struct ChildOptions {
  std::string input;                     // for standard input
  bool keep_input_open = false;          // else it ends after `input`
  std::string directory;                 // working directory; empty: this process's
  std::vector<std::string> environment;  // "NAME=value", added to this process's
  // From start to end. The machine may be slow and busy; this only bounds a hang.
  absl::Duration timeout = absl::Seconds(120);
};

struct ChildResult {
  int wait_status = 0;
  bool timed_out = false;
  std::string out;
  std::string err;
  double seconds = 0;

  // "exit 3", "signal 11" or "timeout".
  std::string Ending() const;
};

// One child in a process group of its own. Movable. The destructor kills the whole group.
class Child {
 public:
  // Aborts the test program if processes cannot be made at all. A program that cannot be executed
  // ends with "exit 127".
  static Child Start(const std::vector<std::string>& argv, const ChildOptions& options = {});
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  ~Child();

  pid_t pid() const { return pid_; }
  const std::string& out() const { return result_.out; }
  const std::string& err() const { return result_.err; }

  // Waits until standard output (or error) holds `text` at `*position` or later, and moves
  // `*position` past it. False if the child ended or timed out before that.
  bool WaitForOut(const std::string& text, size_t* position);
  bool WaitForErr(const std::string& text, size_t* position);
  // Waits until there is a file at `path`. False as above.
  bool WaitForFile(const std::string& path);

  void Write(const std::string& text);
  void CloseInput();
  void Signal(int number);       // to the process
  void SignalGroup(int number);  // to it and all it started

  // Waits for the end. Kills the group where the deadline passes first.
  ChildResult Finish();

 private:
  Child() = default;
  // Moves bytes until something happened, or the deadline or `longest` passed; false once the child
  // ended.
  bool Pump(absl::Duration longest = absl::InfiniteDuration());
  bool WaitFor(const std::string& stream, const std::string& text, size_t* position);

  pid_t pid_ = -1;
  bool reaped_ = false;
  bool keep_input_open_ = false;
  UniqueFd pidfd_, in_, out_, err_;
  std::string unwritten_;
  absl::Time start_, deadline_;
  ChildResult result_;
};

ChildResult RunProcess(const std::vector<std::string>& argv, const ChildOptions& options = {});

}  // namespace hindsight::e2e

#endif  // HINDSIGHT_TESTS_HARNESS_CHILD_H_
