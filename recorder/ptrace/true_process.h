// A process stopped before its first instruction, for tests.

#ifndef HINDSIGHT_RECORDER_PTRACE_TRUE_PROCESS_H_
#define HINDSIGHT_RECORDER_PTRACE_TRUE_PROCESS_H_

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "recorder/process/program_lookup.h"
#include "recorder/ptrace/tracee.h"

namespace hindsight {

// Of /bin/true. Null, and the test has failed, if it cannot be launched.
inline std::unique_ptr<Tracee> LaunchTrue() {
  const auto command = LookUpProgram({"/bin/true"});
  EXPECT_TRUE(command.ok()) << command.status();
  if (!command.ok()) return nullptr;
  auto tracee = Tracee::Launch(*command);
  EXPECT_TRUE(tracee.ok()) << tracee.status();
  return tracee.ok() ? *std::move(tracee) : nullptr;
}

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_PTRACE_TRUE_PROCESS_H_
