// Which bytes system calls store, where their arguments determine that: one entry for each call.
//
// Stateless; also for code without a library.

#ifndef HINDSIGHT_RECORDER_SYSCALLS_CALL_SHAPES_H_
#define HINDSIGHT_RECORDER_SYSCALLS_CALL_SHAPES_H_

#include <stdint.h>
#include <sys/syscall.h>

namespace hindsight {

enum class OutputSize : uint8_t {
  kNone,
  kFixed,          // `unit` bytes
  kResult,         // as many units as the call returned, at most argument `by` (if that is one)
  kArgument,       // as many units as argument `by` says
  kBits,           // a bit set, in words of 64: argument `by` says how many bits
  kPages,          // a byte for each page of the bytes that argument `by` says
  kPointed,        // argument `by` points to the number of bytes, 32 bits; at most `unit` (0: any)
  kHeadAndResult,  // `unit` bytes, and as many as kResult says
  kVector,         // the argument points to iovecs, argument `by` many, filled by the result
  kMessage,        // the argument points to a msghdr, filled by the result
  kMessages,       // ... to mmsghdrs, as many as the result says
};

inline constexpr uint8_t kNoArgument = 0xff;

// The bytes that argument `at` points to, if it is not 0.
struct Output {
  uint8_t at = 0;
  OutputSize size = OutputSize::kNone;
  uint8_t by = kNoArgument;
  uint32_t unit = 1;
};

struct SyscallShape {
  int64_t number = 0;
  Output outputs[4];          // those after the last are kNone
  bool writes_files = false;  // bytes of files may change
};

namespace call_shapes {

inline constexpr uint32_t kLargestAddress = 128;  // sockaddr_storage

// `bytes` at argument `at`.
constexpr Output Fixed(uint8_t at, uint32_t bytes) {
  return {at, OutputSize::kFixed, kNoArgument, bytes};
}
// The result says how many units; argument `by` how many at most.
constexpr Output Result(uint8_t at, uint8_t by, uint32_t unit) {
  return {at, OutputSize::kResult, by, unit};
}
constexpr Output Argument(uint8_t at, uint8_t by, uint32_t unit) {
  return {at, OutputSize::kArgument, by, unit};
}
constexpr Output Bits(uint8_t at, uint8_t by) { return {at, OutputSize::kBits, by, 1}; }
constexpr Output Pages(uint8_t at, uint8_t by) { return {at, OutputSize::kPages, by, 1}; }
constexpr Output Pointed(uint8_t at, uint8_t by, uint32_t most) {
  return {at, OutputSize::kPointed, by, most};
}
constexpr Output Vector(uint8_t at, uint8_t by) { return {at, OutputSize::kVector, by, 1}; }
constexpr Output Message(uint8_t at) { return {at, OutputSize::kMessage, kNoArgument, 1}; }
constexpr Output Messages(uint8_t at, uint8_t by) { return {at, OutputSize::kMessages, by, 1}; }
// A head of `head` bytes, and as many after it as the result says.
constexpr Output Struct(uint8_t at, uint32_t head, uint8_t by) {
  return {at, OutputSize::kHeadAndResult, by, head};
}

inline constexpr bool kFiles = true;

// Calls that store something. Sizes are those of the kernel's structs on x86-64.
inline constexpr SyscallShape kShapes[] = {
    {SYS_read, {Result(1, 2, 1)}},
    {SYS_stat, {Fixed(1, 144)}},
    {SYS_fstat, {Fixed(1, 144)}},
    {SYS_lstat, {Fixed(1, 144)}},
    {SYS_poll, {Argument(0, 1, 8)}},
    {SYS_rt_sigaction, {Fixed(2, 32)}},
    {SYS_rt_sigprocmask, {Argument(2, 3, 1)}},
    {SYS_pread64, {Result(1, 2, 1)}},
    {SYS_readv, {Vector(1, 2)}},
    {SYS_pipe, {Fixed(0, 8)}},
    {SYS_select, {Bits(1, 0), Bits(2, 0), Bits(3, 0), Fixed(4, 16)}},
    {SYS_mincore, {Pages(2, 1)}},
    {SYS_shmctl, {Fixed(2, 128)}},
    {SYS_nanosleep, {Fixed(1, 16)}},
    {SYS_getitimer, {Fixed(1, 32)}},
    {SYS_setitimer, {Fixed(2, 32)}},
    {SYS_sendfile, {Fixed(2, 8)}, kFiles},
    {SYS_accept, {Pointed(1, 2, kLargestAddress), Fixed(2, 4)}},
    {SYS_recvfrom, {Result(1, 2, 1), Pointed(4, 5, kLargestAddress), Fixed(5, 4)}},
    {SYS_recvmsg, {Message(1)}},
    {SYS_getsockname, {Pointed(1, 2, kLargestAddress), Fixed(2, 4)}},
    {SYS_getpeername, {Pointed(1, 2, kLargestAddress), Fixed(2, 4)}},
    {SYS_socketpair, {Fixed(3, 8)}},
    {SYS_getsockopt, {Pointed(3, 4, 0), Fixed(4, 4)}},
    {SYS_wait4, {Fixed(1, 4), Fixed(3, 144)}},
    {SYS_uname, {Fixed(0, 390)}},
    {SYS_msgrcv, {Struct(1, 8, 2)}},
    {SYS_msgctl, {Fixed(2, 128)}},
    {SYS_getdents, {Result(1, 2, 1)}},
    {SYS_getcwd, {Result(0, 1, 1)}},
    {SYS_readlink, {Result(1, 2, 1)}},
    {SYS_gettimeofday, {Fixed(0, 16), Fixed(1, 8)}},
    {SYS_getrlimit, {Fixed(1, 16)}},
    {SYS_getrusage, {Fixed(1, 144)}},
    {SYS_sysinfo, {Fixed(0, 112)}},
    {SYS_times, {Fixed(0, 32)}},
    {SYS_syslog, {Result(1, 2, 1)}},
    {SYS_getgroups, {Result(1, 0, 4)}},
    {SYS_getresuid, {Fixed(0, 4), Fixed(1, 4), Fixed(2, 4)}},
    {SYS_getresgid, {Fixed(0, 4), Fixed(1, 4), Fixed(2, 4)}},
    {SYS_capget, {Fixed(0, 8), Fixed(1, 24)}},
    {SYS_rt_sigpending, {Argument(0, 1, 1)}},
    {SYS_rt_sigtimedwait, {Fixed(1, 128)}},
    {SYS_sigaltstack, {Fixed(1, 24)}},
    {SYS_ustat, {Fixed(1, 32)}},
    {SYS_statfs, {Fixed(1, 120)}},
    {SYS_fstatfs, {Fixed(1, 120)}},
    {SYS_sysfs, {Fixed(2, 256)}},
    {SYS_sched_getparam, {Fixed(1, 4)}},
    {SYS_sched_rr_get_interval, {Fixed(1, 16)}},
    {SYS_modify_ldt, {Result(1, 2, 1)}},
    {SYS_adjtimex, {Fixed(0, 208)}},
    {SYS_getxattr, {Result(2, 3, 1)}},
    {SYS_lgetxattr, {Result(2, 3, 1)}},
    {SYS_fgetxattr, {Result(2, 3, 1)}},
    {SYS_listxattr, {Result(1, 2, 1)}},
    {SYS_llistxattr, {Result(1, 2, 1)}},
    {SYS_flistxattr, {Result(1, 2, 1)}},
    {SYS_time, {Fixed(0, 8)}},
    {SYS_sched_getaffinity, {Result(2, 1, 1)}},
    {SYS_set_thread_area, {Fixed(0, 16)}},
    {SYS_io_setup, {Fixed(1, 8)}},
    {SYS_io_getevents, {Result(3, 2, 32)}},
    {SYS_io_cancel, {Fixed(2, 32)}},
    {SYS_get_thread_area, {Fixed(0, 16)}},
    {SYS_lookup_dcookie, {Result(1, 2, 1)}},
    {SYS_getdents64, {Result(1, 2, 1)}},
    {SYS_timer_create, {Fixed(2, 4)}},
    {SYS_timer_settime, {Fixed(3, 32)}},
    {SYS_timer_gettime, {Fixed(1, 32)}},
    {SYS_clock_gettime, {Fixed(1, 16)}},
    {SYS_clock_getres, {Fixed(1, 16)}},
    {SYS_clock_nanosleep, {Fixed(3, 16)}},
    {SYS_epoll_wait, {Result(1, 2, 12)}},
    {SYS_get_mempolicy, {Fixed(0, 4), Bits(1, 2)}},
    {SYS_mq_timedreceive, {Result(1, 2, 1), Fixed(3, 4)}},
    {SYS_mq_getsetattr, {Fixed(2, 64)}},
    {SYS_waitid, {Fixed(2, 128), Fixed(4, 144)}},
    {SYS_newfstatat, {Fixed(2, 144)}},
    {SYS_readlinkat, {Result(2, 3, 1)}},
    {SYS_pselect6, {Bits(1, 0), Bits(2, 0), Bits(3, 0), Fixed(4, 16)}},
    {SYS_ppoll, {Argument(0, 1, 8), Fixed(2, 16)}},
    {SYS_get_robust_list, {Fixed(1, 8), Fixed(2, 8)}},
    {SYS_splice, {Fixed(1, 8), Fixed(3, 8)}, kFiles},
    {SYS_vmsplice, {Vector(1, 2)}},
    {SYS_move_pages, {Argument(4, 1, 4)}},
    {SYS_epoll_pwait, {Result(1, 2, 12)}},
    {SYS_timerfd_settime, {Fixed(3, 32)}},
    {SYS_timerfd_gettime, {Fixed(1, 32)}},
    {SYS_accept4, {Pointed(1, 2, kLargestAddress), Fixed(2, 4)}},
    {SYS_pipe2, {Fixed(0, 8)}},
    {SYS_preadv, {Vector(1, 2)}},
    {SYS_perf_event_open, {Fixed(0, 136)}},
    {SYS_recvmmsg, {Messages(1, 2), Fixed(4, 16)}},
    {SYS_prlimit64, {Fixed(3, 16)}},
    {SYS_name_to_handle_at, {Fixed(2, 136), Fixed(3, 8)}},
    {SYS_clock_adjtime, {Fixed(1, 208)}},
    {SYS_sendmmsg, {Argument(1, 2, 64)}},
    {SYS_getcpu, {Fixed(0, 4), Fixed(1, 4)}},
    {SYS_process_vm_readv, {Vector(1, 2)}},
    {SYS_process_vm_writev, {Vector(3, 4)}},
    {SYS_sched_getattr, {Argument(1, 2, 1)}},
    {SYS_seccomp, {Fixed(2, 6)}},
    {SYS_getrandom, {Result(0, 1, 1)}},
    {SYS_copy_file_range, {Fixed(1, 8), Fixed(3, 8)}, kFiles},
    {SYS_preadv2, {Vector(1, 2)}},
    {SYS_statx, {Fixed(4, 256)}},
    {SYS_io_pgetevents, {Result(3, 2, 32)}},
    {SYS_rseq, {Argument(0, 1, 1)}},
    {SYS_io_uring_setup, {Fixed(1, 120)}},
    {SYS_epoll_pwait2, {Result(1, 2, 12)}},
};

// Newer than the headers of some hosts.
inline constexpr SyscallShape kNewShapes[] = {
    {451, {Fixed(3, 40)}},                            // cachestat
    {452, {}},                                        // fchmodat2
    {454, {}},                                        // futex_wake
    {455, {}},                                        // futex_wait
    {456, {}},                                        // futex_requeue
    {457, {Argument(1, 2, 1)}},                       // statmount
    {458, {Result(1, 2, 8)}},                         // listmount
    {459, {Pointed(1, 2, 0), Fixed(2, 4)}},           // lsm_get_self_attr
    {460, {}},                                        // lsm_set_self_attr
    {461, {Result(0, kNoArgument, 8), Fixed(1, 4)}},  // lsm_list_modules
    {462, {}},                                        // mseal
    {463, {}},                                        // setxattrat
    {465, {Result(3, 4, 1)}},                         // listxattrat
    {466, {}},                                        // removexattrat
    {467, {}},                                        // open_tree_attr
    {468, {Argument(2, 3, 1)}},                       // file_getattr
    {469, {}},                                        // file_setattr
};

// By number: the place in kShapes and in kNewShapes after it, + 1; 0: in none.
struct Index {
  static constexpr int64_t kNumbers = 512;
  uint8_t places[kNumbers] = {};
};
constexpr int64_t kShapeCount = sizeof(kShapes) / sizeof(kShapes[0]);

constexpr Index MakeIndex() {
  Index index;
  uint8_t place = 0;
  for (const SyscallShape& shape : kShapes) index.places[shape.number] = ++place;
  for (const SyscallShape& shape : kNewShapes) index.places[shape.number] = ++place;
  return index;
}
inline constexpr Index kIndex = MakeIndex();

}  // namespace call_shapes

// nullptr: the table does not say that the call stores anything.
constexpr const SyscallShape* FindStoringShape(int64_t number) {
  using namespace call_shapes;
  const int64_t place = number >= 0 && number < Index::kNumbers ? kIndex.places[number] : 0;
  if (place == 0) return nullptr;
  return place <= kShapeCount ? &kShapes[place - 1] : &kNewShapes[place - 1 - kShapeCount];
}

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_SYSCALLS_CALL_SHAPES_H_
