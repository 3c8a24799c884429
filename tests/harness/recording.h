// Recording and checking programs with the real `hindsight`.

#ifndef HINDSIGHT_TESTS_HARNESS_RECORDING_H_
#define HINDSIGHT_TESTS_HARNESS_RECORDING_H_

#include <string>
#include <vector>

#include "tests/harness/child.h"
#include "tests/harness/files.h"

namespace hindsight::e2e {

// Runs `hindsight ARGUMENTS...`.
ChildResult RunHindsight(const std::vector<std::string>& arguments,
                         const ChildOptions& options = {});

// What the tests of this process record with: the environment's RECORD_ENGINE, else `emulate`.
// engines_test (tests/engines.bzl) makes a test for each.
enum class TestedEngine { kEmulate, kTranslate };
TestedEngine Engine();

// Skips the rest of a test of what the engine that translates is not for.
#define SKIP_IF_TRANSLATED(reason)                                              \
  if (::hindsight::e2e::Engine() == ::hindsight::e2e::TestedEngine::kTranslate) \
  GTEST_SKIP() << reason

// The memory models it records with, the weakest first.
std::vector<std::string> MemoryModels();

// `PATH/hindsight record`, and what chooses the engine: for tests that start it themselves.
std::vector<std::string> RecordCommand();

// A command that runs a program natively, in the address space layout that it is recorded in.
std::vector<std::string> LikeTheRecorded(std::vector<std::string> command);

// RecordCommand, `-o TRACE FLAGS... -- ARGV...`. In the emulator also --self-check: where a block
// is not executed as the processor does, that says so and exits with 125.
ChildResult Record(const std::string& trace, const std::vector<std::string>& argv,
                   const ChildOptions& options = {}, const std::vector<std::string>& flags = {});

// Records a program of tests/programs once, in a directory of its own.
class Recorded {
 public:
  explicit Recorded(const std::vector<std::string>& argv, const ChildOptions& options = {},
                    const std::vector<std::string>& flags = {});
  const std::string& trace() const { return trace_; }
  const ChildResult& run() const { return run_; }

 private:
  TempDir directory_;
  std::string trace_;
  ChildResult run_;
};

// A field of `hindsight info --json`, as text; empty if it is not there.
std::string InfoField(const std::string& trace, const std::string& name);

// Expects that `hindsight verify` finds the trace exact.
void ExpectExact(const std::string& trace);

// Expects that recording ARGV changes neither its outputs nor its ending, and that the trace is
// exact. The program runs natively first.
void ExpectRecordsUnchanged(const std::vector<std::string>& argv, const ChildOptions& options = {},
                            const std::vector<std::string>& flags = {});

// The same for programs whose threads or processes race: as often as the environment's RECORDINGS
// says, once without it; until the first failure.
void ExpectAlwaysRecordsUnchanged(const std::vector<std::string>& argv,
                                  const ChildOptions& options = {},
                                  const std::vector<std::string>& flags = {});
int Recordings();

// The processes the recording holds beside its first, by the names of their directories.
std::vector<std::string> ChildProcesses(const std::string& trace);
// All of them; 0 if it cannot be said.
int CountProcesses(const std::string& trace);

// Whether this host's processors have all these features, named as in /proc/cpuinfo.
bool HostHas(const std::vector<std::string>& features);

// Where `program` is installed here; empty: it is not.
std::string FindProgram(const std::string& program);

}  // namespace hindsight::e2e

#endif  // HINDSIGHT_TESTS_HARNESS_RECORDING_H_
