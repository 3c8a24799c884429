#include "tests/harness/recording.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <regex>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace hindsight::e2e {
namespace {

// So many blocks of a million instructions are compared with the processor in every recording: real
// programs find what the emulator's own tests do not think of.
constexpr char kSelfCheck[] = "--self-check=2";

// Outputs may be megabytes: reports only where they differ.
void ExpectSameText(const std::string& what, const std::string& native,
                    const std::string& recorded) {
  if (native == recorded) return;
  size_t at = 0;
  while (at < native.size() && at < recorded.size() && native[at] == recorded[at]) ++at;
  ADD_FAILURE() << what << " differs at byte " << at << " (sizes " << native.size() << ", "
                << recorded.size() << "); natively: " << native.substr(at, 200)
                << "\nrecorded: " << recorded.substr(at, 200);
}

std::string FirstMatch(const std::string& text, const char* expression) {
  std::smatch match;
  return std::regex_search(text, match, std::regex(expression)) ? match[1].str() : "";
}

// `hindsight verify --json`, which must find the trace exact.
std::string VerifyExact(const std::string& trace) {
  ChildOptions options;
  options.timeout = absl::Seconds(300);
  const ChildResult verify = RunHindsight({"verify", "--json", trace}, options);
  EXPECT_EQ(verify.Ending(), "exit 0") << verify.out << verify.err;
  return verify.out;
}

}  // namespace

ChildResult RunHindsight(const std::vector<std::string>& arguments, const ChildOptions& options) {
  std::vector<std::string> argv = {Hindsight()};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return RunProcess(argv, options);
}

TestedEngine Engine() {
  const char* const engine = getenv("RECORD_ENGINE");
  return engine != nullptr && std::string(engine) == "translate" ? TestedEngine::kTranslate
                                                                 : TestedEngine::kEmulate;
}

std::vector<std::string> MemoryModels() {
  if (Engine() == TestedEngine::kTranslate) return {"kernel", "fence"};
  return {"kernel", "fence", "acqrel", "load"};
}

std::vector<std::string> RecordCommand() {
  return {Hindsight(), "record",
          Engine() == TestedEngine::kTranslate ? "--engine=translate" : "--engine=emulate"};
}

std::vector<std::string> LikeTheRecorded(std::vector<std::string> command) {
  if (Engine() == TestedEngine::kTranslate) {
    command.insert(command.begin(), {"/usr/bin/setarch", "x86_64", "--addr-compat-layout"});
  }
  return command;
}

ChildResult Record(const std::string& trace, const std::vector<std::string>& argv,
                   const ChildOptions& options, const std::vector<std::string>& flags) {
  std::vector<std::string> command = RecordCommand();
  command.insert(command.end(), {"--quiet", "-o", trace});
  if (Engine() == TestedEngine::kEmulate) command.push_back(kSelfCheck);
  command.insert(command.end(), flags.begin(), flags.end());
  command.push_back("--");
  command.insert(command.end(), argv.begin(), argv.end());
  return RunProcess(command, options);
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

void ExpectExact(const std::string& trace) { VerifyExact(trace); }

void ExpectRecordsUnchanged(const std::vector<std::string>& argv, const ChildOptions& options,
                            const std::vector<std::string>& flags) {
  SCOPED_TRACE(absl::StrJoin(argv, " ").substr(0, 300));
  const ChildResult native = RunProcess(argv, options);
  const Recorded recorded(argv, options, flags);
  EXPECT_EQ(recorded.run().Ending(), native.Ending()) << recorded.run().err;
  ExpectSameText("standard output", native.out, recorded.run().out);
  ExpectSameText("standard error", native.err, recorded.run().err);
  const std::string verify = VerifyExact(recorded.trace());
  const std::string info = RunHindsight({"info", "--json", recorded.trace()}).out;
  // Of all processes.
  const std::string instructions =
      FirstMatch(info, R"("recording"\s*:\s*\{[^}]*"instructions"\s*:\s*(\d+))");
  EXPECT_EQ(FirstMatch(verify, R"("instructions"\s*:\s*(\d+))"), instructions);
  std::printf("%.40s: %s instructions, natively %.3f s, recorded %.3f s\n", argv[0].c_str(),
              instructions.c_str(), native.seconds, recorded.run().seconds);
}

int Recordings() {
  const char* recordings = getenv("RECORDINGS");
  return recordings != nullptr ? std::max(1, atoi(recordings)) : 1;
}

void ExpectAlwaysRecordsUnchanged(const std::vector<std::string>& argv, const ChildOptions& options,
                                  const std::vector<std::string>& flags) {
  for (int i = 1; i <= Recordings() && !::testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(absl::StrCat("recording ", i));
    ExpectRecordsUnchanged(argv, options, flags);
  }
}

std::vector<std::string> ChildProcesses(const std::string& trace) {
  std::vector<std::string> names;
  std::error_code none;  // a recording without children has no such directory
  for (const auto& entry : std::filesystem::directory_iterator(trace + "/processes", none)) {
    if (std::filesystem::exists(entry.path() / "manifest")) {
      names.push_back(entry.path().filename());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

int CountProcesses(const std::string& trace) {
  const int root = std::filesystem::exists(trace + "/manifest") ? 1 : 0;
  return root + static_cast<int>(ChildProcesses(trace).size());
}

bool HostHas(const std::vector<std::string>& features) {
  const std::string cpuinfo = ReadFile("/proc/cpuinfo");
  const size_t flags = cpuinfo.find("flags");
  const std::string line = cpuinfo.substr(flags, cpuinfo.find('\n', flags) - flags) + " ";
  return std::all_of(features.begin(), features.end(), [&line](const std::string& feature) {
    return line.find(" " + feature + " ") != std::string::npos;
  });
}

std::string FindProgram(const std::string& program) {
  for (const char* directory : {"/usr/bin/", "/bin/", "/usr/sbin/"}) {
    if (access((directory + program).c_str(), X_OK) == 0) return directory + program;
  }
  return "";
}

}  // namespace hindsight::e2e
