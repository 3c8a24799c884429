// run_translated [--native] [--report] [--cpu=host] [--block=N] [--flush=N] [--seed=N] PROGRAM
// ARGS: runs a program translated, and ends as it does.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "recorder/process/program_lookup.h"
#include "recorder/translate/program_run.h"

namespace hindsight {
namespace {

struct Flags {
  ProgramRunOptions options;
  bool report = false;
  std::vector<std::string> command;
};

bool TakeNumber(absl::string_view argument, absl::string_view name, uint64_t* value) {
  return absl::StartsWith(argument, name) && absl::SimpleAtoi(argument.substr(name.size()), value);
}

bool TakeFlag(absl::string_view argument, Flags* flags) {
  TranslationOptions& translation = flags->options.translation;
  uint64_t number;
  if (argument == "--native") {
    flags->options.translate = false;
  } else if (argument == "--report") {
    flags->report = true;
  } else if (argument == "--cpu=host") {
    translation.cpu = CpuModel::kHost;
  } else if (TakeNumber(argument, "--block=", &number)) {
    translation.trials.block_instructions = static_cast<uint32_t>(number);
  } else if (TakeNumber(argument, "--flush=", &number)) {
    translation.trials.flush_every = static_cast<uint32_t>(number);
  } else if (TakeNumber(argument, "--seed=", &number)) {
    translation.seed = number;
  } else {
    return false;
  }
  return true;
}

Flags ParseFlags(int argc, char** argv) {
  Flags flags;
  int i = 1;
  while (i < argc && TakeFlag(argv[i], &flags)) ++i;
  flags.command.assign(argv + i, argv + argc);
  return flags;
}

[[noreturn]] void EndAs(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    signal(WTERMSIG(wait_status), SIG_DFL);
    raise(WTERMSIG(wait_status));
  }
  _exit(WEXITSTATUS(wait_status));
}

int Run(int argc, char** argv) {
  const Flags flags = ParseFlags(argc, argv);
  if (flags.command.empty()) return 2;
  const auto command = LookUpProgram(flags.command);
  if (!command.ok()) {
    std::fprintf(stderr, "%s\n", command.status().ToString().c_str());
    return 2;
  }
  const auto result = RunProgramTranslated(*command, flags.options);
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
    return 2;
  }
  if (flags.report) {
    const ServiceCounts& counts = result->counts;
    std::fprintf(stderr, "instructions %lu requests %lu blocks %lu bytes %lu\n",
                 counts.instructions, counts.requests, counts.blocks, counts.code_bytes);
  }
  EndAs(result->wait_status);
}

}  // namespace
}  // namespace hindsight

int main(int argc, char** argv) { return hindsight::Run(argc, argv); }
