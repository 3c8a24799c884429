#include "recorder/ptrace/whole/copied_state.h"

#include <limits.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "recorder/process/process_facts.h"
#include "recorder/process/process_memory.h"
#include "recorder/ptrace/whole/injected_call.h"
#include "recorder/ptrace/whole/scratch_page.h"

namespace hindsight {
namespace {

constexpr int kSignals = 64;

std::string Link(pid_t process, const char* name) {
  char path[PATH_MAX];
  const ssize_t length =
      readlink(absl::StrCat("/proc/", process, "/", name).c_str(), path, sizeof(path));
  return length > 0 ? std::string(path, static_cast<size_t>(length)) : std::string();
}

struct StatusLines {
  uint64_t ignored = 0, caught = 0;
  int32_t umask = -1;
  bool no_new_privileges = false;
};

StatusLines ReadStatus(pid_t process) {
  StatusLines status;
  std::ifstream file(absl::StrCat("/proc/", process, "/status"));
  for (std::string line; std::getline(file, line);) {
    unsigned long long value;
    if (std::sscanf(line.c_str(), "SigIgn: %llx", &value) == 1) status.ignored = value;
    if (std::sscanf(line.c_str(), "SigCgt: %llx", &value) == 1) status.caught = value;
    if (std::sscanf(line.c_str(), "Umask: %llo", &value) == 1) {
      status.umask = static_cast<int32_t>(value);
    }
    if (std::sscanf(line.c_str(), "NoNewPrivs: %llu", &value) == 1) {
      status.no_new_privileges = value != 0;
    }
  }
  return status;
}

// The handlers: /proc says only which signals have one.
void ReadActions(pid_t copy, const CallSite& site, const StatusLines& status, KernelState* state) {
  state->signals.assign(kSignals, SignalHandling());
  std::vector<int> asked;
  for (int signal = 1; signal <= kSignals; ++signal) {
    const uint64_t bit = uint64_t{1} << (signal - 1);
    if ((status.ignored & bit) != 0) state->signals[signal - 1].handler = 1;
    if (((status.caught | status.ignored) & bit) != 0) asked.push_back(signal);
  }
  const ScratchPage page(copy, site);
  if (page.address() == 0) return state->signals.clear();
  // As the kernel has it: handler, flags, restorer, mask.
  using Action = std::array<uint64_t, 4>;
  std::vector<CallToInject> calls = {{SYS_brk, {0}}};
  for (const int signal : asked) {
    const auto number = static_cast<uint64_t>(signal);
    calls.push_back(
        {SYS_rt_sigaction,
         {number, 0, page.address() + (number - 1) * sizeof(Action), sizeof(uint64_t)}});
  }
  const auto values = InjectCalls(copy, site, calls);
  std::array<Action, kSignals> actions = {};
  if (!values.ok() || !page.Read(0, &actions)) return state->signals.clear();
  state->layout.brk = static_cast<uint64_t>((*values)[0]);
  for (const int signal : asked) {
    const Action& action = actions[static_cast<size_t>(signal - 1)];
    state->signals[static_cast<size_t>(signal - 1)] = {action[0], action[1], action[2], action[3]};
  }
}

// The fields of /proc/PID/stat, from 0.
void ReadLayout(pid_t copy, MemoryLayout* layout) {
  const std::vector<uint64_t> fields = StatFields(copy);
  if (fields.size() < 51) return;
  layout->code_start = fields[25];
  layout->code_end = fields[26];
  layout->stack_start = fields[27];
  layout->data_start = fields[44];
  layout->data_end = fields[45];
  layout->brk_start = fields[46];
  layout->arguments_start = fields[47];
  layout->arguments_end = fields[48];
  layout->environment_start = fields[49];
  layout->environment_end = fields[50];
}

void ReadLimits(pid_t copy, std::vector<ResourceLimit>* limits) {
  limits->clear();
  for (int resource = 0; resource < RLIM_NLIMITS; ++resource) {
    rlimit limit;
    if (prlimit(copy, static_cast<__rlimit_resource>(resource), nullptr, &limit) != 0) break;
    limits->push_back({limit.rlim_cur, limit.rlim_max});
  }
}

}  // namespace

void ReadCopiedState(pid_t copy, const CallSite& site, KernelState* state) {
  const StatusLines status = ReadStatus(copy);
  state->umask = status.umask;
  state->no_new_privileges = status.no_new_privileges;
  state->executable = Link(copy, "exe");
  state->working_directory = Link(copy, "cwd");
  state->root = Link(copy, "root");
  std::ifstream personality(absl::StrCat("/proc/", copy, "/personality"));
  if (!(personality >> std::hex >> state->personality)) state->personality = -1;
  ReadLayout(copy, &state->layout);
  ReadLimits(copy, &state->limits);
  ReadActions(copy, {site.instruction, 0}, status, state);
}

void ReadRelations(pid_t process, KernelState* state) {
  const std::vector<uint64_t> fields = StatFields(process);
  if (fields.size() > 5) {
    state->parent = static_cast<int32_t>(fields[3]);
    state->group = static_cast<int32_t>(fields[4]);
    state->session = static_cast<int32_t>(fields[5]);
  }
  std::ifstream timers(absl::StrCat("/proc/", process, "/timers"));
  PosixTimer timer;
  for (std::string line; std::getline(timers, line);) {
    unsigned long long value;
    char kind[16] = {};
    int number;
    if (std::sscanf(line.c_str(), "ID: %d", &number) == 1) {
      timer = {.id = number};
    } else if (std::sscanf(line.c_str(), "signal: %d/%llx", &number, &value) == 2) {
      timer.signal = number;
      timer.value = value;
    } else if (std::sscanf(line.c_str(), "notify: %15[a-z]/%*3[a-z].%d", kind, &number) == 2) {
      const std::string name = kind;
      const bool thread = line.find("/tid.") != line.npos;
      timer.notify = name == "none" ? SIGEV_NONE : name == "thread" ? SIGEV_THREAD : SIGEV_SIGNAL;
      if (thread) timer.notify |= SIGEV_THREAD_ID;
      timer.target = number;
    } else if (std::sscanf(line.c_str(), "ClockID: %d", &number) == 1) {
      timer.clock = number;
      state->posix_timers.push_back(timer);
    }
  }
}

}  // namespace hindsight
