// The commands as a user meets them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

TEST(CliTest, HelpIsThereForEachCommand) {
  const ChildResult help = RunHindsight({"--help"});
  for (const char* command : {"record", "replay", "serve", "info", "verify", "dump"}) {
    EXPECT_THAT(help.out, HasSubstr(command));
    const ChildResult own = RunHindsight({command, "--help"});
    EXPECT_EQ(own.Ending(), "exit 0") << command;
    EXPECT_THAT(own.out, HasSubstr(command));
    EXPECT_GT(std::count(own.out.begin(), own.out.end(), '\n'), 3) << command;
  }
}

TEST(CliTest, WrongUseIsOneLineOnStandardError) {
  const std::vector<std::vector<std::string>> wrong = {{"frobnicate"},
                                                       {"record"},
                                                       {"record", "--frobnicate", "--", "true"},
                                                       {"serve"},
                                                       {"info", "/nonexistent"}};
  for (const std::vector<std::string>& arguments : wrong) {
    const TempDir directory;
    ChildOptions options;
    options.directory = directory.path();
    const ChildResult result = RunHindsight(arguments, options);
    EXPECT_NE(result.Ending(), "exit 0") << arguments[0];
    EXPECT_NE(result.err, "") << arguments[0];
    EXPECT_LE(std::count(result.err.begin(), result.err.end(), '\n'), 2) << result.err;
  }
}

// Without -o the trace is named after the program; without TRACE the newest here is meant.
TEST(CliTest, DefaultDirectories) {
  const TempDir directory;
  ChildOptions options;
  options.directory = directory.path();
  EXPECT_EQ(RunHindsight({"record", "--", Program("hello")}, options).Ending(), "exit 42");
  EXPECT_EQ(RunHindsight({"record", "--", Program("hello")}, options).Ending(), "exit 42");
  EXPECT_EQ(RunHindsight({"record", "--", Program("steps")}, options).Ending(), "exit 0");
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
    names.push_back(entry.path().filename());
  }
  EXPECT_EQ(names.size(), 3u);
  EXPECT_EQ(std::count_if(names.begin(), names.end(),
                          [](const std::string& name) { return name.find("hello") == 0; }),
            2);
  const ChildResult info = RunHindsight({"info"}, options);
  EXPECT_EQ(info.Ending(), "exit 0") << info.err;
  EXPECT_THAT(info.out, HasSubstr("programs/steps"));
  EXPECT_EQ(RunHindsight({"verify"}, options).Ending(), "exit 0");
}

// There no process has the number by which the recorder would look for it.
TEST(CliTest, ProcOfAnotherPidNamespaceIsRefused) {
  const std::vector<std::string> below = {"/usr/bin/unshare", "--pid", "--fork"};
  const auto run = [&below](std::vector<std::string> command) {
    command.insert(command.begin(), below.begin(), below.end());
    return RunProcess(command);
  };
  if (run({"/bin/true"}).Ending() != "exit 0") GTEST_SKIP() << "namespaces are not permitted";
  const TempDir directory;
  const std::string trace = directory.File("trace");
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {Hindsight(), "record", "--engine=translate", "-o", trace, "--", "/bin/true"},
           {Hindsight(), "record", "--engine=emulate", "-o", trace, "--", "/bin/true"},
           {Hindsight(), "record", "-o", trace, "--attach", "1"},
           {Hindsight(), "snap", "-o", trace, "--", "/bin/true"}}) {
    const ChildResult refused = run(command);
    EXPECT_NE(refused.Ending(), "exit 0");
    EXPECT_THAT(refused.err, HasSubstr("another PID namespace"));
    EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;
    EXPECT_FALSE(std::filesystem::exists(trace));
  }
}

TEST(CliTest, ExistingDirectoryIsNotOverwritten) {
  const TempDir directory;
  WriteFile(directory.File("precious"), "kept");
  EXPECT_NE(Record(directory.path(), {Program("hello")}).Ending(), "exit 42");
  EXPECT_EQ(ReadFile(directory.File("precious")), "kept");
}

TEST(CliTest, InfoTellsWhatTheTraceHolds) {
  const Recorded recorded({Program("hello"), "first"});
  EXPECT_EQ(InfoField(recorded.trace(), "state"), "complete");
  EXPECT_THAT(InfoField(recorded.trace(), "program"), HasSubstr("programs/hello"));
  EXPECT_GT(std::stoull("0" + InfoField(recorded.trace(), "instructions")), 10'000u);
  const ChildResult text = RunHindsight({"info", recorded.trace()});
  EXPECT_THAT(text.out, HasSubstr("libc.so.6"));
}

TEST(CliTest, DumpShowsRecordsAsText) {
  const Recorded recorded({Program("hello")});
  const ChildResult text = RunHindsight({"dump", recorded.trace()});
  EXPECT_EQ(text.Ending(), "exit 0") << text.err;
  EXPECT_THAT(text.out, HasSubstr("import"));
  EXPECT_THAT(text.out, HasSubstr("side effect"));
  const ChildResult json = RunHindsight({"dump", recorded.trace(), "--json"});
  EXPECT_EQ(json.Ending(), "exit 0") << json.err;
  const ChildResult parsed = RunProcess(
      {"/usr/bin/python3", "-c",
       "import json, sys\n"
       "text = sys.stdin.read()\n"
       "try: print(len(json.loads(text)))\n"
       "except ValueError: print(len([json.loads(line) for line in text.splitlines()]))"},
      {.input = json.out});
  EXPECT_EQ(parsed.Ending(), "exit 0") << parsed.err;
}

TEST(CliTest, VerifyNamesTheFirstDifference) {
  // A trace whose module bytes were exchanged: every checksum of the records holds, but replay
  // cannot be what was recorded.
  const Recorded recorded({Program("hello")});
  const TempDir directory;
  const std::string trace = directory.File("trace");
  std::filesystem::copy(recorded.trace(), trace, std::filesystem::copy_options::recursive);
  for (const auto& entry : std::filesystem::directory_iterator(trace + "/modules")) {
    std::string bytes = ReadFile(entry.path());
    for (size_t i = 4096; i < bytes.size(); ++i) bytes[i] ^= 0x10;
    std::filesystem::permissions(entry.path(), std::filesystem::perms::owner_all);
    WriteFile(entry.path(), bytes);
  }
  const ChildResult verify = RunHindsight({"verify", trace});
  EXPECT_EQ(verify.Ending(), "exit 1") << verify.out << verify.err;
  EXPECT_NE(verify.out + verify.err, "");
}

TEST(CliTest, VersionIsToldEitherWay) {
  const ChildResult version = RunHindsight({"version"});
  EXPECT_EQ(version.Ending(), "exit 0") << version.err;
  EXPECT_EQ(version.out.substr(0, 10), "hindsight ");
  EXPECT_EQ(RunHindsight({"--version"}).out, version.out);
  EXPECT_EQ(RunHindsight({"version", "x"}).Ending(), "exit 2");
}

// Of the recorder and of the program, which sleeps.
double ProcessorSeconds(const std::string& seconds) {
  const TempDir directory;
  rusage before = {}, after = {};
  getrusage(RUSAGE_CHILDREN, &before);
  const ChildResult result =
      RunHindsight({"record", "--quiet", "-o", directory.path() + "/t", "--", "sleep", seconds});
  EXPECT_EQ(result.Ending(), "exit 0") << result.err;
  getrusage(RUSAGE_CHILDREN, &after);
  const auto all = [](const rusage& usage) {
    const timeval &user = usage.ru_utime, &system = usage.ru_stime;
    return static_cast<double>(user.tv_sec + system.tv_sec) +
           1e-6 * static_cast<double>(user.tv_usec + system.tv_usec);
  };
  return all(after) - all(before);
}

TEST(CliTest, WaitingForAProgramThatDoesNothingCostsLittle) {
  ProcessorSeconds("0.1");  // translates what is not known yet
  const double start = ProcessorSeconds("0.1");
  EXPECT_LT(ProcessorSeconds("3.1") - start, 0.15);
}

}  // namespace
}  // namespace hindsight::e2e
