#include "cli/running/run_choice.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "cli/command.h"
#include "cli/trace_path.h"

namespace hindsight {
namespace {

// The program that a trace without a name is named after.
std::string TraceName(const RunChoice& choice) {
  if (choice.attach_pid == 0) return choice.arguments[0];
  std::error_code error;
  const auto program =
      std::filesystem::read_symlink(absl::StrCat("/proc/", choice.attach_pid, "/exe"), error);
  return error ? absl::StrCat(choice.attach_pid) : program.string();
}

}  // namespace

void AddOutputOption(Options* options, std::string* directory, absl::string_view default_name) {
  options->Add(
      "output", directory, "DIR",
      absl::StrCat("The trace: a directory that does not exist or is empty. Without it ",
                   default_name, " in the current directory, N the lowest number that is free."));
  options->Alias('o');
}

void AddSaveOption(Options* options, SaveValue* save, absl::string_view more) {
  options->Add(
      "save-on", save, "END",
      absl::StrCat("Keep the trace only if PROG ends so, and remove it otherwise: crash (a signal "
                   "such as SIGSEGV or SIGABRT), signal or signal=SEGV,TERM,... (killed by one), "
                   "exit-status (other than 0) or exit-status=N,...",
                   more.empty() ? "" : " ", more));
}

std::string CheckRun(const RunChoice& choice) {
  if (choice.attach_pid < 0) return "--attach needs the pid of a process";
  if (choice.attach_pid == 0 && choice.arguments.empty()) return "no program given";
  if (choice.attach_pid != 0 && !choice.arguments.empty()) {
    return "either a program or --attach, not both";
  }
  return CheckRingPool(choice.ring, choice.ring_pool);
}

bool ChooseDirectory(RunChoice* choice) {
  if (choice->directory.empty()) choice->directory = NewTracePath(".", TraceName(*choice));
  const std::filesystem::path parent = std::filesystem::path(choice->directory).parent_path();
  std::error_code error;
  if (parent.empty() || std::filesystem::is_directory(parent, error)) return true;
  PrintError(absl::StrCat(parent.string(), ": no such directory"));
  return false;
}

}  // namespace hindsight
