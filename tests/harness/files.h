// Where tests find their inputs and put their outputs.

#ifndef HINDSIGHT_TESTS_HARNESS_FILES_H_
#define HINDSIGHT_TESTS_HARNESS_FILES_H_

#include <string>

namespace hindsight::e2e {

// Absolute path of a file of the source tree or built from it, e.g. "cli/hindsight".
// Aborts if it is not there: then it is missing in the test's `data`.
std::string Runfile(const std::string& path);
// The product.
std::string Hindsight();
// A program of tests/programs.
std::string Program(const std::string& name);
// The number of the one line of tests/programs/`file` that holds `text`.
int LineOf(const std::string& file, const std::string& text);

std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, const std::string& bytes);

// A new directory, gone with its contents when this ends. Not copyable.
class TempDir {
 public:
  TempDir();
  // In `parent`. For sockets, whose paths must be shorter than Bazel's.
  explicit TempDir(const std::string& parent);
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace hindsight::e2e

#endif  // HINDSIGHT_TESTS_HARNESS_FILES_H_
