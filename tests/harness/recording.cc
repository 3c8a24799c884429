#include "tests/harness/recording.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <regex>

#include "absl/strings/str_join.h"

namespace hindsight::e2e {
namespace {

// Outputs may be megabytes: tells only where they part.
void ExpectSameText(const std::string& what, const std::string& native,
                    const std::string& recorded) {
  if (native == recorded) return;
  size_t at = 0;
  while (at < native.size() && at < recorded.size() && native[at] == recorded[at]) ++at;
  ADD_FAILURE() << what << " differs at byte " << at << " (sizes " << native.size() << ", "
                << recorded.size() << "); natively: " << native.substr(at, 200)
                << "\nrecorded: " << recorded.substr(at, 200);
}

}  // namespace

ChildResult RunHindsight(const std::vector<std::string>& arguments, const ChildOptions& options) {
  std::vector<std::string> argv = {Hindsight()};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return RunProcess(argv, options);
}

ChildResult Record(const std::string& trace, const std::vector<std::string>& argv,
                   const ChildOptions& options, const std::vector<std::string>& flags) {
  std::vector<std::string> arguments = {"record", "-o", trace};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  arguments.push_back("--");
  arguments.insert(arguments.end(), argv.begin(), argv.end());
  return RunHindsight(arguments, options);
}

Recorded::Recorded(const std::vector<std::string>& argv, const ChildOptions& options,
                   const std::vector<std::string>& flags)
    : trace_(directory_.File("trace")), run_(Record(trace_, argv, options, flags)) {
  EXPECT_FALSE(run_.timed_out) << run_.err;
}

std::string InfoField(const std::string& trace, const std::string& name) {
  const ChildResult info = RunHindsight({"info", trace, "--json"});
  EXPECT_EQ(info.Ending(), "exit 0") << info.err;
  std::smatch match;
  const std::regex field("\"" + name + "\"\\s*:\\s*(\"([^\"]*)\"|[^,}\\s]+)");
  if (!std::regex_search(info.out, match, field)) return "";
  return match[2].matched ? match[2].str() : match[1].str();
}

void ExpectExact(const std::string& trace) {
  ChildOptions options;
  options.timeout = absl::Seconds(300);
  const ChildResult verify = RunHindsight({"verify", trace}, options);
  EXPECT_EQ(verify.Ending(), "exit 0") << verify.out << verify.err;
}

void ExpectRecordsUnchanged(const std::vector<std::string>& argv, const ChildOptions& options,
                            const std::vector<std::string>& flags) {
  SCOPED_TRACE(absl::StrJoin(argv, " ").substr(0, 300));
  const ChildResult native = RunProcess(argv, options);
  const Recorded recorded(argv, options, flags);
  EXPECT_EQ(recorded.run().Ending(), native.Ending()) << recorded.run().err;
  ExpectSameText("standard output", native.out, recorded.run().out);
  ExpectSameText("standard error", native.err, recorded.run().err);
  const std::string instructions = InfoField(recorded.trace(), "instructions");
  ExpectExact(recorded.trace());
  std::printf("%.40s: %s instructions, natively %.3f s, recorded %.3f s\n", argv[0].c_str(),
              instructions.c_str(), native.seconds, recorded.run().seconds);
}

}  // namespace hindsight::e2e
