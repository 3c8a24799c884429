#include "tests/harness/gdb.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tests/harness/recording.h"

namespace hindsight::e2e {
namespace {

// The last line of every script, so that a script cut short is noticed.
constexpr char kEpilogue[] = "\necho \\nscript: complete\\n\n";

ChildOptions GdbChildOptions() {
  ChildOptions options;
  options.directory = Runfile(".");  // where the sources lie as the debug information names them
  options.environment = {"DEBUGINFOD_URLS=", "TERM=dumb", "HOME=/nonexistent"};
  options.timeout = absl::Seconds(150);
  return options;
}

GdbResult ToGdbResult(ChildResult child) {
  GdbResult result;
  result.text = child.out + "\n--- standard error ---\n" + child.err;
  result.child = std::move(child);
  return result;
}

void ExpectComplete(const GdbResult& result) {
  EXPECT_EQ(result.child.Ending(), "exit 0") << result.text;
  EXPECT_EQ(result.Answer("script"), "complete") << result.text;
}

}  // namespace

std::vector<std::string> GdbArguments() {
  return {"-nx",
          "-q",
          "-batch",
          "-ex",
          "set width 0",
          "-ex",
          "set debuginfod enabled off",
          "-ex",
          "source " + Runfile("tests/harness/prelude.py")};
}

std::vector<std::string> GdbResult::Answers(const std::string& tag) const {
  std::vector<std::string> answers;
  for (absl::string_view line : absl::StrSplit(child.out, '\n')) {
    if (absl::ConsumePrefix(&line, tag + ": ")) answers.emplace_back(line);
  }
  return answers;
}

std::vector<std::string> GdbResult::Records(const std::string& start) const {
  std::vector<std::string> records;
  for (absl::string_view line : absl::StrSplit(child.out, '\n')) {
    if (absl::ConsumePrefix(&line, start)) records.emplace_back(line);
  }
  return records;
}

std::string GdbResult::Answer(const std::string& tag) const {
  const std::vector<std::string> answers = Answers(tag);
  if (answers.size() == 1) return answers[0];
  return absl::StrCat("(", answers.size(), " answers to ", tag, ": ", absl::StrJoin(answers, ", "),
                      ")");
}

GdbResult TryGdb(const std::string& trace, const std::string& script,
                 const std::vector<std::string>& flags) {
  TempDir directory;
  WriteFile(directory.File("script"), script + kEpilogue);
  std::vector<std::string> arguments = {"replay", trace};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  arguments.push_back("--");
  for (const std::string& argument : GdbArguments()) arguments.push_back(argument);
  arguments.push_back("-x");
  arguments.push_back(directory.File("script"));
  std::vector<std::string> argv = {Hindsight()};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return ToGdbResult(RunProcess(argv, GdbChildOptions()));
}

GdbResult RunGdb(const std::string& trace, const std::string& script,
                 const std::vector<std::string>& flags) {
  GdbResult result = TryGdb(trace, script, flags);
  ExpectComplete(result);
  return result;
}

GdbResult RunGdbOnProgram(const std::vector<std::string>& argv, const std::string& script) {
  TempDir directory;
  WriteFile(directory.File("script"), script + kEpilogue);
  std::vector<std::string> gdb = LikeTheRecorded({"gdb"});
  for (const std::string& argument : GdbArguments()) gdb.push_back(argument);
  const std::string arguments = absl::StrJoin(argv.begin() + 1, argv.end(), " ");
  gdb.insert(gdb.end(), {"-ex", absl::StrCat("starti ", arguments, " >/dev/null"), "-x",
                         directory.File("script"), argv.front()});
  GdbResult result = ToGdbResult(RunProcess(gdb, GdbChildOptions()));
  ExpectComplete(result);
  return result;
}

GdbResult RunGdbOnCore(const std::string& program, const std::string& core,
                       const std::vector<std::string>& commands) {
  std::vector<std::string> argv = {"gdb", "-nx", "-batch", "-iex", "set width 0", program, core};
  for (const std::string& command : commands) argv.insert(argv.end(), {"-ex", command});
  GdbResult result = ToGdbResult(RunProcess(argv, GdbChildOptions()));
  EXPECT_EQ(result.child.Ending(), "exit 0") << result.child.err;
  return result;
}

Server::Server(const std::string& trace) : socket_(directory_.File("socket")) {
  ChildOptions options;
  options.timeout = absl::Seconds(300);
  child_ = std::make_unique<Child>(
      Child::Start({Hindsight(), "serve", trace, "--unix=" + socket_}, options));
  // It says where it listens once it does.
  size_t position = 0;
  EXPECT_TRUE(child_->WaitForOut(socket_, &position)) << child_->err();
}

Child Server::StartGdb(const std::string& script) {
  const std::string file = directory_.File(absl::StrCat("script", ++scripts_));
  WriteFile(file, script + kEpilogue);
  std::vector<std::string> argv = {"gdb"};
  for (const std::string& argument : GdbArguments()) argv.push_back(argument);
  argv.insert(argv.end(), {"-ex", "target remote " + socket_, "-x", file});
  return Child::Start(argv, GdbChildOptions());
}

GdbResult Server::RunGdb(const std::string& script) {
  GdbResult result = ToGdbResult(StartGdb(script).Finish());
  ExpectComplete(result);
  return result;
}

GdbResult Server::RunMi(const std::string& commands) {
  ChildOptions options = GdbChildOptions();
  int number = 0;
  for (absl::string_view line : absl::StrSplit(commands, '\n', absl::SkipEmpty())) {
    absl::StrAppend(&options.input, ++number, line, "\n");
  }
  absl::StrAppend(&options.input, "-gdb-exit\n");
  GdbResult result = ToGdbResult(RunProcess(
      {"gdb", "-nx", "-q", "--interpreter=mi3", "-ex", "set debuginfod enabled off", "-ex",
       "source " + Runfile("server/hindsight_gdb.py"), "-ex", "target remote " + socket_},
      options));
  EXPECT_EQ(result.child.Ending(), "exit 0") << result.text;
  return result;
}

}  // namespace hindsight::e2e
