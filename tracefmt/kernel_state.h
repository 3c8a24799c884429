// What the kernel keeps of a process besides registers and memory, as far as a snapshot has it:
// that from which the process could be made again.
//
// Times are in ns, sets of signals have bit N - 1 for signal N.

#ifndef HINDSIGHT_TRACEFMT_KERNEL_STATE_H_
#define HINDSIGHT_TRACEFMT_KERNEL_STATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hindsight {

// Of one thread.
struct ThreadKernelState {
  int32_t thread = 0;
  std::string name;
  uint64_t blocked = 0;
  uint64_t pending = 0;               // for it alone
  std::vector<std::string> siginfos;  // of these, in the order they came
  int64_t system_call = -1;           // the one that it is in; -1: none
  bool has_signal_stack = false;      // whether the next three are known
  uint64_t signal_stack_base = 0;     // sigaltstack(2)
  uint64_t signal_stack_bytes = 0;
  int32_t signal_stack_flags = 2;  // SS_DISABLE
  uint64_t robust_list = 0;        // set_robust_list(2); 0: none
  uint64_t robust_list_bytes = 0;
  std::optional<uint64_t> clear_tid;  // set_tid_address(2), if known
  uint64_t rseq = 0;                  // 0: none
  uint32_t rseq_bytes = 0;
  uint32_t rseq_signature = 0;
  uint32_t rseq_flags = 0;
  int32_t policy = 0;    // sched(7)
  int32_t priority = 0;  // of the real-time policies
  int32_t nice = 0;
  std::vector<uint64_t> processors;  // bit N: it may run on processor N

  bool operator==(const ThreadKernelState&) const = default;
};

enum class DescriptorKind : uint16_t {
  kOther = 0,
  kFile = 1,
  kDirectory = 2,
  kPipe = 3,  // one without a name
  kFifo = 4,
  kSocket = 5,
  kCharacterDevice = 6,
  kBlockDevice = 7,
  kAnonymous = 8,  // epoll, eventfd, timerfd, signalfd, ...: `path` says which
  kMemory = 9,     // memfd_create(2)
};

struct OpenDescriptor {
  int32_t fd = 0;
  DescriptorKind kind = DescriptorKind::kOther;
  std::string path;  // as /proc/PID/fd/N has it: "/a/b", "/a/b (deleted)", "pipe:[123]"
  uint64_t offset = 0;
  uint32_t flags = 0;  // open(2), without O_CLOEXEC
  bool close_on_exec = false;
  uint32_t mode = 0;    // st_mode
  uint64_t device = 0;  // st_dev
  uint64_t inode = 0;
  uint64_t special_device = 0;  // st_rdev
  uint64_t size_bytes = 0;      // of a file
  // The lowest descriptor with the same open file description (dup, fork); its own number: none is
  // lower; -1: not known.
  int32_t same_as = -1;
  std::string details;  // further lines of /proc/PID/fdinfo/N
  // What has been written into a pipe and not read yet, if that is known; on its reading ends.
  std::optional<std::string> unread;

  bool operator==(const OpenDescriptor&) const = default;
};

// rt_sigaction(2).
struct SignalHandling {
  uint64_t handler = 0;  // 0: SIG_DFL; 1: SIG_IGN
  uint64_t flags = 0;
  uint64_t restorer = 0;
  uint64_t mask = 0;

  bool operator==(const SignalHandling&) const = default;
};

// setitimer(2). Zero: it does not run.
struct IntervalTimer {
  int32_t which = 0;  // ITIMER_REAL, ...
  uint64_t left_ns = 0;
  uint64_t interval_ns = 0;

  bool operator==(const IntervalTimer&) const = default;
};

// timer_create(2). What is left of it is not known.
struct PosixTimer {
  int32_t id = 0;
  int32_t clock = 0;
  int32_t notify = 0;  // SIGEV_...
  int32_t signal = 0;
  int32_t target = 0;  // the thread or process that gets the signal
  uint64_t value = 0;  // sigval

  bool operator==(const PosixTimer&) const = default;
};

struct ResourceLimit {
  uint64_t soft = 0;
  uint64_t hard = 0;

  bool operator==(const ResourceLimit&) const = default;
};

// prctl(PR_SET_MM).
struct MemoryLayout {
  uint64_t code_start = 0, code_end = 0;
  uint64_t data_start = 0, data_end = 0;
  uint64_t brk_start = 0, brk = 0;  // brk 0: not known
  uint64_t stack_start = 0;
  uint64_t arguments_start = 0, arguments_end = 0;
  uint64_t environment_start = 0, environment_end = 0;

  bool operator==(const MemoryLayout&) const = default;
};

struct KernelState {
  std::vector<ThreadKernelState> threads;
  std::vector<OpenDescriptor> descriptors;  // by number
  std::vector<SignalHandling> signals;      // of signal 1, 2, ...; empty: not known
  uint64_t pending = 0;                     // for the process as a whole
  std::vector<std::string> siginfos;        // of these
  std::vector<IntervalTimer> interval_timers;
  std::vector<PosixTimer> posix_timers;
  std::vector<ResourceLimit> limits;  // of RLIMIT_CPU (0), ...
  MemoryLayout layout;
  std::string executable;
  std::string working_directory;
  std::string root;
  int32_t umask = -1;        // -1: not known
  int64_t personality = -1;  // likewise
  int32_t parent = 0;
  int32_t group = 0;
  int32_t session = 0;
  bool no_new_privileges = false;

  // Null: nothing is known of `thread`.
  const ThreadKernelState* Thread(int32_t thread) const {
    for (const ThreadKernelState& state : threads) {
      if (state.thread == thread) return &state;
    }
    return nullptr;
  }
  bool operator==(const KernelState&) const = default;
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_KERNEL_STATE_H_
