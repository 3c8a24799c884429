#include "cli/running/save_option.h"

#include <string.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "cli/command.h"

namespace hindsight {
namespace {

constexpr int kLastSignal = 64;

// 0: there is no such signal.
int SignalNamed(absl::string_view name) {
  int number = 0;
  if (absl::SimpleAtoi(name, &number)) return number >= 1 && number <= kLastSignal ? number : 0;
  absl::ConsumePrefix(&name, "SIG");
  for (int signal = 1; signal < SIGRTMIN; ++signal) {
    const char* const known = sigabbrev_np(signal);
    if (known != nullptr && name == known) return signal;
  }
  return 0;
}

// -1: it is none.
int ExitStatusNamed(absl::string_view text) {
  int status = -1;
  return absl::SimpleAtoi(text, &status) && status >= 0 && status <= 255 ? status : -1;
}

// Signals that the program's own errors raise, and whose default is a core dump.
bool IsCrash(int signal) {
  constexpr int kCrashes[] = {SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS};
  return std::find(std::begin(kCrashes), std::end(kCrashes), signal) != std::end(kCrashes);
}

std::string EndText(int wait_status) {
  if (WIFEXITED(wait_status)) {
    return absl::StrCat("exited with status ", WEXITSTATUS(wait_status));
  }
  const int signal = WTERMSIG(wait_status);
  return absl::StrCat("was killed by signal ", signal, " (", strsignal(signal), ")");
}

}  // namespace

bool SaveValue::Keeps(int wait_status) const {
  const auto listed = [this](int number) {
    return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
  };
  switch (on) {
    case On::kAll:
      return true;
    case On::kCrash:
      return WIFSIGNALED(wait_status) && IsCrash(WTERMSIG(wait_status));
    case On::kSignal:
      return WIFSIGNALED(wait_status) && (numbers.empty() || listed(WTERMSIG(wait_status)));
    case On::kExitStatus:
      if (!WIFEXITED(wait_status)) return false;
      return numbers.empty() ? WEXITSTATUS(wait_status) != 0 : listed(WEXITSTATUS(wait_status));
  }
  return true;
}

bool AbslParseFlag(absl::string_view text, SaveValue* value, std::string* error) {
  SaveValue save = {.text = std::string(text)};
  *error =
      "a trace is saved on crash, signal, signal=NAME,... (SEGV, 11), exit-status or "
      "exit-status=N,...";
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('=', 1));
  const bool has_list = absl::StrContains(text, "=");
  if (parts.first == "crash" && !has_list) {
    save.on = SaveValue::On::kCrash;
  } else if (parts.first == "signal") {
    save.on = SaveValue::On::kSignal;
  } else if (parts.first == "exit-status") {
    save.on = SaveValue::On::kExitStatus;
  } else {
    return false;
  }
  if (has_list) {
    for (const absl::string_view name : absl::StrSplit(parts.second, ',')) {
      const bool signal = save.on == SaveValue::On::kSignal;
      const int number = signal ? SignalNamed(name) : ExitStatusNamed(name);
      if (number < (signal ? 1 : 0)) return false;
      save.numbers.push_back(number);
    }
  }
  *value = std::move(save);
  return true;
}

std::string AbslUnparseFlag(const SaveValue& value) { return value.text; }

void RemoveUnlessWanted(const SaveValue& save, const std::string& directory, int wait_status,
                        bool quiet) {
  if (save.Keeps(wait_status)) return;
  std::error_code error;
  std::filesystem::remove_all(directory, error);
  if (error) {
    PrintError(absl::StrCat(directory, ": cannot be removed: ", error.message()));
  } else if (!quiet) {
    PrintError(absl::StrCat("the program ", EndText(wait_status),
                            ": its trace was removed (--save-on=", save.text, ")"));
  }
}

}  // namespace hindsight
