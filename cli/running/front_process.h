// A process in front of the one that does the work, so that what is killed with SIGKILL is not what
// holds the program: the worker notices, finishes the step it is in, and ends.
//
//   the command (front: passes signals on, ends like the worker)
//     +- worker: the caller of RunBehindFront, and its threads
//
// Requires: the calling thread is the only one.

#ifndef HINDSIGHT_CLI_RUNNING_FRONT_PROCESS_H_
#define HINDSIGHT_CLI_RUNNING_FRONT_PROCESS_H_

#include <signal.h>

#include <functional>

namespace hindsight {

// Runs `work` in a child of this process and returns the child's exit status; if a signal killed
// the child, kills this process with the same. The child gets `front_gone`, a signal, when this
// process dies. SIGTERM, SIGHUP and SIGUSR1 are passed on to it, and SIGINT and SIGQUIT that do not
// come from the terminal, which sends them to both: `work` is called with all of these blocked, and
// `mask` is what was before. Where no process can be made, it is called here.
int RunBehindFront(int front_gone, const std::function<int(const sigset_t& mask)>& work);

}  // namespace hindsight

#endif  // HINDSIGHT_CLI_RUNNING_FRONT_PROCESS_H_
