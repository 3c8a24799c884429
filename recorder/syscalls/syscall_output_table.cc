#include "recorder/syscalls/syscall_output_table.h"

#include <sys/syscall.h>

#include <algorithm>
#include <iterator>

namespace hindsight {
namespace {

constexpr uint32_t kLargestAddress = 128;  // sockaddr_storage

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

constexpr bool kFiles = true;

// Calls that store something. Sizes are those of the kernel's structs on x86-64.
constexpr SyscallShape kShapes[] = {
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

// Calls that store nothing in the caller's memory, but perhaps in files.
constexpr int64_t kWritesFiles[] = {SYS_write,     SYS_pwrite64,  SYS_writev,
                                    SYS_truncate,  SYS_ftruncate, SYS_creat,
                                    SYS_fallocate, SYS_pwritev,   SYS_pwritev2};
// Calls that store nothing at all.
constexpr int64_t kStoresNothing[] = {SYS_close,
                                      SYS_lseek,
                                      SYS_mprotect,
                                      SYS_rt_sigreturn,
                                      SYS_access,
                                      SYS_sched_yield,
                                      SYS_msync,
                                      SYS_shmget,
                                      SYS_dup,
                                      SYS_dup2,
                                      SYS_pause,
                                      SYS_alarm,
                                      SYS_getpid,
                                      SYS_socket,
                                      SYS_connect,
                                      SYS_sendto,
                                      SYS_sendmsg,
                                      SYS_shutdown,
                                      SYS_bind,
                                      SYS_listen,
                                      SYS_setsockopt,
                                      SYS_fork,
                                      SYS_execve,
                                      SYS_exit,
                                      SYS_kill,
                                      SYS_semget,
                                      SYS_semop,
                                      SYS_msgget,
                                      SYS_msgsnd,
                                      SYS_flock,
                                      SYS_fsync,
                                      SYS_fdatasync,
                                      SYS_chdir,
                                      SYS_fchdir,
                                      SYS_rename,
                                      SYS_mkdir,
                                      SYS_rmdir,
                                      SYS_link,
                                      SYS_unlink,
                                      SYS_symlink,
                                      SYS_chmod,
                                      SYS_fchmod,
                                      SYS_chown,
                                      SYS_fchown,
                                      SYS_lchown,
                                      SYS_umask,
                                      SYS_getuid,
                                      SYS_getgid,
                                      SYS_setuid,
                                      SYS_setgid,
                                      SYS_geteuid,
                                      SYS_getegid,
                                      SYS_setpgid,
                                      SYS_getppid,
                                      SYS_getpgrp,
                                      SYS_setsid,
                                      SYS_setreuid,
                                      SYS_setregid,
                                      SYS_setgroups,
                                      SYS_setresuid,
                                      SYS_setresgid,
                                      SYS_getpgid,
                                      SYS_setfsuid,
                                      SYS_setfsgid,
                                      SYS_getsid,
                                      SYS_capset,
                                      SYS_rt_sigqueueinfo,
                                      SYS_rt_sigsuspend,
                                      SYS_utime,
                                      SYS_mknod,
                                      SYS_uselib,
                                      SYS_personality,
                                      SYS_getpriority,
                                      SYS_setpriority,
                                      SYS_sched_setparam,
                                      SYS_sched_setscheduler,
                                      SYS_sched_getscheduler,
                                      SYS_sched_get_priority_max,
                                      SYS_sched_get_priority_min,
                                      SYS_mlock,
                                      SYS_munlock,
                                      SYS_mlockall,
                                      SYS_munlockall,
                                      SYS_vhangup,
                                      SYS_pivot_root,
                                      SYS_setrlimit,
                                      SYS_chroot,
                                      SYS_sync,
                                      SYS_acct,
                                      SYS_settimeofday,
                                      SYS_mount,
                                      SYS_umount2,
                                      SYS_swapon,
                                      SYS_swapoff,
                                      SYS_reboot,
                                      SYS_sethostname,
                                      SYS_setdomainname,
                                      SYS_iopl,
                                      SYS_ioperm,
                                      SYS_init_module,
                                      SYS_delete_module,
                                      SYS_gettid,
                                      SYS_readahead,
                                      SYS_setxattr,
                                      SYS_lsetxattr,
                                      SYS_fsetxattr,
                                      SYS_removexattr,
                                      SYS_lremovexattr,
                                      SYS_fremovexattr,
                                      SYS_tkill,
                                      SYS_sched_setaffinity,
                                      SYS_io_destroy,
                                      SYS_io_submit,
                                      SYS_epoll_create,
                                      SYS_set_tid_address,
                                      SYS_semtimedop,
                                      SYS_fadvise64,
                                      SYS_timer_getoverrun,
                                      SYS_timer_delete,
                                      SYS_clock_settime,
                                      SYS_exit_group,
                                      SYS_epoll_ctl,
                                      SYS_tgkill,
                                      SYS_utimes,
                                      SYS_mbind,
                                      SYS_set_mempolicy,
                                      SYS_mq_open,
                                      SYS_mq_unlink,
                                      SYS_mq_timedsend,
                                      SYS_mq_notify,
                                      SYS_add_key,
                                      SYS_request_key,
                                      SYS_ioprio_set,
                                      SYS_ioprio_get,
                                      SYS_inotify_init,
                                      SYS_inotify_add_watch,
                                      SYS_inotify_rm_watch,
                                      SYS_migrate_pages,
                                      SYS_mkdirat,
                                      SYS_mknodat,
                                      SYS_fchownat,
                                      SYS_futimesat,
                                      SYS_unlinkat,
                                      SYS_renameat,
                                      SYS_linkat,
                                      SYS_symlinkat,
                                      SYS_fchmodat,
                                      SYS_faccessat,
                                      SYS_unshare,
                                      SYS_set_robust_list,
                                      SYS_tee,
                                      SYS_sync_file_range,
                                      SYS_utimensat,
                                      SYS_signalfd,
                                      SYS_timerfd_create,
                                      SYS_eventfd,
                                      SYS_signalfd4,
                                      SYS_eventfd2,
                                      SYS_epoll_create1,
                                      SYS_dup3,
                                      SYS_inotify_init1,
                                      SYS_rt_tgsigqueueinfo,
                                      SYS_fanotify_init,
                                      SYS_fanotify_mark,
                                      SYS_open_by_handle_at,
                                      SYS_syncfs,
                                      SYS_setns,
                                      SYS_kcmp,
                                      SYS_finit_module,
                                      SYS_sched_setattr,
                                      SYS_renameat2,
                                      SYS_memfd_create,
                                      SYS_execveat,
                                      SYS_userfaultfd,
                                      SYS_membarrier,
                                      SYS_mlock2,
                                      SYS_pkey_mprotect,
                                      SYS_pkey_alloc,
                                      SYS_pkey_free,
                                      SYS_pidfd_send_signal,
                                      SYS_open_tree,
                                      SYS_move_mount,
                                      SYS_fsopen,
                                      SYS_fsconfig,
                                      SYS_fsmount,
                                      SYS_fspick,
                                      SYS_pidfd_open,
                                      SYS_close_range,
                                      SYS_openat2,
                                      SYS_pidfd_getfd,
                                      SYS_faccessat2,
                                      SYS_mount_setattr,
                                      SYS_landlock_create_ruleset,
                                      SYS_landlock_add_rule,
                                      SYS_landlock_restrict_self,
                                      SYS_memfd_secret,
                                      SYS_process_mrelease,
                                      SYS_futex_waitv,
                                      SYS_set_mempolicy_home_node};

// Newer than the headers of some hosts.
constexpr SyscallShape kNewShapes[] = {
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

constexpr SyscallShape kNothing = {};
constexpr SyscallShape kFilesOnly = {.writes_files = true};

template <typename Range>
const SyscallShape* FindIn(const Range& shapes, int64_t number) {
  const auto it = std::find_if(std::begin(shapes), std::end(shapes),
                               [&](const SyscallShape& shape) { return shape.number == number; });
  return it == std::end(shapes) ? nullptr : &*it;
}

template <typename Range>
bool Contains(const Range& numbers, int64_t number) {
  return std::find(std::begin(numbers), std::end(numbers), number) != std::end(numbers);
}

}  // namespace

const SyscallShape* FindSyscallShape(int64_t number) {
  if (const SyscallShape* shape = FindIn(kShapes, number)) return shape;
  if (const SyscallShape* shape = FindIn(kNewShapes, number)) return shape;
  if (Contains(kWritesFiles, number)) return &kFilesOnly;
  return Contains(kStoresNothing, number) ? &kNothing : nullptr;
}

}  // namespace hindsight
