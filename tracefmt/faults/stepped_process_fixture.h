// A process that is stopped before each of its system calls that a test is interested in: what a
// file looks like at every instant, whoever is killed there, and what others may do meanwhile.

#ifndef HINDSIGHT_TRACEFMT_FAULTS_STEPPED_PROCESS_FIXTURE_H_
#define HINDSIGHT_TRACEFMT_FAULTS_STEPPED_PROCESS_FIXTURE_H_

#include <cstdint>
#include <functional>

namespace hindsight {

struct SystemCall {
  uint64_t number = 0;
  uint64_t arguments[6] = {};  // of openat2 the flags in place of where they are
};

// Calls by which a file or its name appears, changes or goes; not those that only add to a file.
bool ChangesNames(const SystemCall& call);
// Calls that look a name up.
bool OpensFile(const SystemCall& call);

// Executes `run` in a child, and calls `at_step` before each system call, of any thread of it, for
// which `is_step` holds: that thread waits as long, others may go on. True: `run` returned, and
// no expectation of the test failed in it. Requires: no other child of this process ends meanwhile.
bool RunInSteps(const std::function<void()>& run,
                const std::function<bool(const SystemCall&)>& is_step,
                const std::function<void()>& at_step);

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_FAULTS_STEPPED_PROCESS_FIXTURE_H_
