// hindsight snap of a program, and hindsight refine of its snapshots.

#ifndef HINDSIGHT_TESTS_REFINE_REFINE_FIXTURE_H_
#define HINDSIGHT_TESTS_REFINE_REFINE_FIXTURE_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/harness/child.h"
#include "tests/harness/files.h"
#include "tracefmt/trace_reader.h"

namespace hindsight::e2e {

class RefineTest : public testing::Test {
 protected:
  // Takes snapshots of the program, which must end with `ending`. What it prints.
  std::string Snap(const std::vector<std::string>& program, const std::string& ending,
                   const std::vector<std::string>& options = {}) {
    std::vector<std::string> argv = {Hindsight(), "snap", "--quiet", "-o", trace_};
    argv.insert(argv.end(), options.begin(), options.end());
    argv.push_back("--");
    argv.insert(argv.end(), program.begin(), program.end());
    const ChildResult result = RunProcess(argv);
    EXPECT_EQ(result.Ending(), ending) << result.out << result.err;
    return result.out;
  }
  ChildResult Refine(const std::vector<std::string>& options) {
    std::vector<std::string> argv = {Hindsight(), "refine", trace_, "-o", refined_};
    argv.insert(argv.end(), options.begin(), options.end());
    return RunProcess(argv);
  }
  size_t RefinedSnapshots() const {
    const auto trace = TraceReader::Open(refined_);
    EXPECT_TRUE(trace.ok()) << trace.status();
    return trace.ok() ? (*trace)->full_keyframes().size() : 0;
  }
  // What follows the line that begins with `start`.
  static std::string After(const std::string& text, const std::string& start) {
    const size_t at = text.find(start);
    return at == std::string::npos ? "none" : text.substr(text.find('\n', at) + 1);
  }

  TempDir directory_;
  const std::string trace_ = directory_.path() + "/trace";
  const std::string refined_ = directory_.path() + "/refined";
};

}  // namespace hindsight::e2e

#endif  // HINDSIGHT_TESTS_REFINE_REFINE_FIXTURE_H_
