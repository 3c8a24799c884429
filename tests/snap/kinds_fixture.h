// Snapshots of libhindsight/testdata/kinds.cc, as gdb lists and shows them.

#ifndef HINDSIGHT_TESTS_SNAP_KINDS_FIXTURE_H_
#define HINDSIGHT_TESTS_SNAP_KINDS_FIXTURE_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "tests/harness/gdb.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {

// What a trace has, as gdb lists it: from the trigger to the attributes.
inline std::vector<std::string> Listed(const GdbResult& gdb) {
  std::vector<std::string> list;
  for (const absl::string_view line : absl::StrSplit(gdb.Answer("list"), '|')) {
    const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(", ", 2));
    if (parts.size() == 3) list.emplace_back(parts[2].substr(0, parts[2].find("; position ")));
  }
  return list;
}

inline constexpr char kList[] = R"(
python say("list", gdb.execute("monitor snapshots", to_string=True).replace("\n", "|"))
)";

// In each snapshot: the program's variables, and its functions from the outermost one.
inline constexpr char kWalk[] = R"(
python
def look():
  names = [name for name in functions() if name in ("main", "work", "raise", "__cxa_throw")]
  text = value("(char *) text").split('"')[1]
  return " ".join([value("round_now"), value("handled"), text] + sorted(names))
def count():
  return gdb.execute("monitor snapshots", to_string=True).count("\n")
end
)";

class KindsTest : public testing::Test {
 protected:
  std::string Snap(const std::vector<std::string>& options, const char* how = nullptr) {
    const std::string trace = directory_.File(absl::StrCat("trace", ++traces_));
    std::vector<std::string> argv = {Hindsight(), "snap", "--quiet", "-o", trace};
    argv.insert(argv.end(), options.begin(), options.end());
    argv.insert(argv.end(), {"--", kProgram});
    if (how != nullptr) argv.push_back(how);
    const ChildResult snap = RunProcess(argv);
    EXPECT_EQ(snap.Ending(), "exit 5") << snap.err;
    return trace;
  }
  std::string RecordingOf(const std::vector<std::string>& options) {
    const std::string trace = directory_.File(absl::StrCat("trace", ++traces_));
    const ChildResult run = Record(trace, {kProgram}, {}, options);
    EXPECT_EQ(run.Ending(), "exit 5") << run.err;
    ExpectExact(trace);
    return trace;
  }
  static std::vector<std::string> Kinds(const std::string& trace) {
    return Listed(RunGdb(trace, kList));
  }

  static constexpr char kProgram[] = "libhindsight/testdata/kinds";
  TempDir directory_;
  int traces_ = 0;
};

// The rounds of the program, by what is asked for.
struct Wanted {
  bool signals = false, functions = false;
};
inline std::vector<std::string> AllKinds(Wanted wanted) {
  std::vector<std::string> all = {"call, direct", "point 1/7/11, phase=on, rank=2", "point 9/8/1"};
  if (wanted.signals) all.push_back("signal 0/0/10, SIGUSR1");
  if (wanted.functions) all.push_back("function, work");
  all.insert(all.end(), {"call, direct", "point 2/7/12, phase=on, rank=2",
                         "condition, libhindsight/testdata/kinds.cc:LINE: number == 2",
                         "exception, std::runtime_error, what=the second"});
  if (wanted.functions) all.push_back("function, work");
  all.insert(all.end(),
             {"call, direct", "point 3/7/13, phase=end, rank=2",
              "assertion, libhindsight/testdata/kinds.cc:LINE: number != 3", "exception, int"});
  if (wanted.functions) all.push_back("function, work");
  return all;
}

inline std::vector<std::string> WithoutLines(std::vector<std::string> kinds) {
  for (std::string& kind : kinds) {
    const size_t at = kind.find(".cc:");
    if (at == kind.npos) continue;
    kind = absl::StrCat(kind.substr(0, at + 4), "LINE", kind.substr(kind.find(": ", at)));
  }
  return kinds;
}

}  // namespace hindsight::e2e

#endif  // HINDSIGHT_TESTS_SNAP_KINDS_FIXTURE_H_
