#include "recorder/syscalls/syscall_outputs.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>

#include "recorder/syscalls/ioctl_outputs.h"
#include "recorder/syscalls/output_shapes.h"
#include "recorder/syscalls/syscall_output_table.h"

namespace hindsight {
namespace {

// Newer than the headers of some hosts.
constexpr uint64_t kPrGetAuxv = 0x41555856;
constexpr int kMadvDontneedLocked = 24;
constexpr int kMadvGuardInstall = 102;
// The heap and System V segments: how far they reached is not known, and a longer range costs
// nothing: only pages in it that a thread knows are compared.
constexpr uint64_t kFar = uint64_t{1} << 36;

void FcntlOutputs(const CallFrame& call, SyscallOutputs* out) {
  switch (static_cast<int>(call.arguments[1])) {
    case F_GETLK:
    case F_OFD_GETLK:
      out->written.push_back({call.arguments[2], 32});  // struct flock
      break;
    case 16:    // F_GETOWN_EX
    case 17:    // F_GETOWNER_UIDS
    case 1035:  // F_GET_RW_HINT
    case 1037:  // F_GET_FILE_RW_HINT
      out->written.push_back({call.arguments[2], 8});
      break;
    default:
      break;
  }
}

void PrctlOutputs(const CallFrame& call, SyscallOutputs* out) {
  const uint64_t* arguments = call.arguments;
  switch (arguments[0]) {
    case PR_GET_PDEATHSIG:
    case PR_GET_UNALIGN:
    case PR_GET_FPEMU:
    case PR_GET_FPEXC:
    case PR_GET_ENDIAN:
    case PR_GET_TSC:
    case PR_GET_CHILD_SUBREAPER:
      out->written.push_back({arguments[1], 4});
      break;
    case PR_GET_NAME:
      out->written.push_back({arguments[1], 16});
      break;
    case PR_GET_TID_ADDRESS:
      out->written.push_back({arguments[1], 8});
      break;
    case PR_SET_MM:
      out->written.push_back({arguments[2], 4});  // PR_SET_MM_MAP_SIZE
      break;
    case PR_SCHED_CORE:
      out->written.push_back({arguments[4], 8});
      break;
    case kPrGetAuxv:
      AddBuffer(call, arguments[1], arguments[2], out);
      break;
    default:
      break;
  }
}

void ArchPrctlOutputs(const CallFrame& call, SyscallOutputs* out) {
  constexpr uint64_t kSetGs = 0x1001, kSetFs = 0x1002;
  if (call.arguments[0] == kSetGs || call.arguments[0] == kSetFs) return;
  out->written.push_back({call.arguments[1], 8});
}

void FutexOutputs(const CallFrame& call, SyscallOutputs* out) {
  switch (static_cast<int>(call.arguments[1]) & FUTEX_CMD_MASK) {
    case FUTEX_LOCK_PI:
    case 13:  // FUTEX_LOCK_PI2
    case FUTEX_TRYLOCK_PI:
    case FUTEX_UNLOCK_PI:
      out->written.push_back({call.arguments[0], 4});
      break;
    case FUTEX_WAKE_OP:
    case FUTEX_CMP_REQUEUE_PI:
    case FUTEX_WAIT_REQUEUE_PI:
      out->written.push_back({call.arguments[4], 4});
      break;
    default:
      break;
  }
}

void KeyctlOutputs(const CallFrame& call, SyscallOutputs* out) {
  // The result is what there is, which may be more than was asked for. Of a failed call: all.
  const auto stored = static_cast<uint64_t>(call.result);
  switch (call.arguments[0]) {
    case 6:   // KEYCTL_DESCRIBE
    case 11:  // KEYCTL_READ
    case 17:  // KEYCTL_GET_SECURITY
    case 23:  // KEYCTL_DH_COMPUTE
    case 31:  // KEYCTL_CAPABILITIES, whose buffer is an argument earlier
      AddBuffer(call, call.arguments[2], std::min(call.arguments[3], stored), out);
      AddBuffer(call, call.arguments[1], std::min(call.arguments[2], stored), out);
      break;
    case 24:
    case 25:
    case 26:
    case 27:
    case 28:  // KEYCTL_PKEY_...
      out->known = false;
      break;
    default:
      break;
  }
}

void SemctlOutputs(const CallFrame& call, SyscallOutputs* out) {
  constexpr uint64_t kGetAll = 13;  // as many numbers as the set has semaphores
  switch (call.arguments[2] & 0xff) {
    case 2:   // IPC_STAT
    case 3:   // IPC_INFO
    case 18:  // SEM_STAT
    case 19:  // SEM_INFO
    case 20:  // SEM_STAT_ANY
      out->written.push_back({call.arguments[3], 128});
      break;
    case kGetAll:
      out->known = false;
      break;
    default:
      break;
  }
}

// Options that store more than the length says. False: it is another one.
bool GetsockoptOutputs(const CallFrame& call, SyscallOutputs* out) {
  const auto level = static_cast<int>(call.arguments[1]);
  const auto option = static_cast<int>(call.arguments[2]);
  const bool filter = level == SOL_SOCKET && option == SO_GET_FILTER;  // the length counts structs
  const bool sources =                                                 // counted in the struct
      (level == SOL_IP || level == SOL_IPV6) && option == MCAST_MSFILTER;
  // Through a pointer, and it puts pages where the struct says.
  const bool zerocopy = level == SOL_TCP && option == TCP_ZEROCOPY_RECEIVE;
  if (filter || sources || zerocopy) out->known = false;
  return filter || sources || zerocopy;
}

// A process made with the caller's memory, and not as its thread, may write to it; if the caller
// sleeps until that has executed a program (vfork), only until then.
void NewTaskOutputs(uint64_t flags, SyscallOutputs* out) {
  if ((flags & CLONE_VM) == 0 || (flags & CLONE_THREAD) != 0) return;
  out->known = false;
  out->shares_memory = (flags & CLONE_VFORK) == 0;
}

void CloneOutputs(const CallFrame& call, SyscallOutputs* out) {
  const uint64_t flags = call.arguments[0];
  NewTaskOutputs(flags, out);
  if ((flags & (CLONE_PARENT_SETTID | CLONE_PIDFD)) != 0) {
    out->written.push_back({call.arguments[2], 4});
  }
  if ((flags & CLONE_CHILD_SETTID) != 0 && (flags & CLONE_VM) != 0) {
    out->written.push_back({call.arguments[3], 4});
  }
}

void Clone3Outputs(const CallFrame& call, SyscallOutputs* out) {
  const auto field = [&](size_t offset) {
    return call.before.Word(call.arguments[0] + offset, sizeof(uint64_t));
  };
  const uint64_t flags = field(offsetof(clone_args, flags));
  NewTaskOutputs(flags, out);
  if ((flags & CLONE_PIDFD) != 0) out->written.push_back({field(offsetof(clone_args, pidfd)), 4});
  if ((flags & CLONE_CHILD_SETTID) != 0 && (flags & CLONE_VM) != 0) {
    out->written.push_back({field(offsetof(clone_args, child_tid)), 4});
  }
  if ((flags & CLONE_PARENT_SETTID) != 0) {
    out->written.push_back({field(offsetof(clone_args, parent_tid)), 4});
  }
}

void MadviseOutputs(const CallFrame& call, SyscallOutputs* out) {
  const MemoryRange range = {call.arguments[0], call.arguments[1]};
  switch (static_cast<int>(call.arguments[2])) {
    case MADV_DONTNEED:
    case kMadvDontneedLocked:
    case MADV_REMOVE:
    case MADV_HWPOISON:
    case kMadvGuardInstall:
      out->remapped.push_back(range);
      break;
    case MADV_FREE:
      out->discarded.push_back(range);
      break;
    default:
      break;
  }
}

void MapOutputs(const CallFrame& call, SyscallOutputs* out) {
  const uint64_t* arguments = call.arguments;
  const auto result = static_cast<uint64_t>(call.result);
  const bool failed = call.result < 0;
  switch (call.number) {
    case SYS_mmap:
      // MAP_FIXED may have unmapped what was there before it failed.
      out->remapped.push_back({failed ? arguments[0] : result, arguments[1]});
      break;
    case SYS_munmap:
    case SYS_remap_file_pages:
      out->remapped.push_back({arguments[0], arguments[1]});
      break;
    case SYS_mremap:
      out->remapped.push_back({arguments[0], std::max(arguments[1], arguments[2])});
      out->remapped.push_back({failed ? arguments[4] : result, arguments[2]});
      break;
    case SYS_brk:
      out->remapped.push_back({result & ~uint64_t{0xfff}, kFar});
      break;
    case SYS_shmat:
      if (!failed) out->remapped.push_back({result, kFar});
      break;
    case SYS_shmdt:
      out->remapped.push_back({arguments[0], kFar});
      break;
    default:
      break;
  }
}

// The calls whose outputs depend on more than the shapes of the table. False: it is another.
bool SpecialOutputs(const CallFrame& call, SyscallOutputs* out) {
  switch (call.number) {
    case SYS_ioctl:
      IoctlOutputs(call, out);
      return true;
    case SYS_fcntl:
      FcntlOutputs(call, out);
      return true;
    case SYS_prctl:
      PrctlOutputs(call, out);
      return true;
    case SYS_arch_prctl:
      ArchPrctlOutputs(call, out);
      return true;
    case SYS_futex:
      FutexOutputs(call, out);
      return true;
    case SYS_keyctl:
      KeyctlOutputs(call, out);
      return true;
    case SYS_semctl:
      SemctlOutputs(call, out);
      return true;
    case SYS_getsockopt:
      return GetsockoptOutputs(call, out);
    case SYS_clone:
      CloneOutputs(call, out);
      return true;
    case SYS_clone3:
      Clone3Outputs(call, out);
      return true;
    case SYS_vfork:
      out->known = false;
      return true;
    case SYS_madvise:
      MadviseOutputs(call, out);
      return true;
    case SYS_mmap:
    case SYS_munmap:
    case SYS_mremap:
    case SYS_brk:
    case SYS_shmat:
    case SYS_shmdt:
    case SYS_remap_file_pages:
      MapOutputs(call, out);
      return true;
    case SYS_open:
      out->writes_files = (call.arguments[1] & O_TRUNC) != 0;
      return true;
    case SYS_openat:
      out->writes_files = (call.arguments[2] & O_TRUNC) != 0;
      return true;
    default:
      return false;
  }
}

// Errors that may come after a part was stored: the next part could not be, or was invalid.
bool FailsLate(int64_t result) { return result == -EFAULT || result == -EIO || result == -EBADMSG; }

void TakeAsWritten(SyscallOutputs* out) {
  constexpr uint64_t kMostBytes = 1 << 20;
  uint64_t bytes = 0;
  for (const MemoryRange& range : out->perhaps_written) bytes += std::min(range.size, kMostBytes);
  if (bytes < kMostBytes) {
    out->written.insert(out->written.end(), out->perhaps_written.begin(),
                        out->perhaps_written.end());
  } else {
    out->known = false;
  }
  out->perhaps_written.clear();
}

}  // namespace

void SyscallOutputs::Add(const SyscallOutputs& other) {
  // They would pile up for a thread that gets no turn for long.
  constexpr size_t kMaxRanges = 256;
  known = known && other.known;
  writes_files = writes_files || other.writes_files;
  remapped.insert(remapped.end(), other.remapped.begin(), other.remapped.end());
  discarded.insert(discarded.end(), other.discarded.begin(), other.discarded.end());
  if (remapped.size() + discarded.size() <= kMaxRanges) return;
  known = false;
  remapped.clear();
  discarded.clear();
}

SyscallOutputs OutputsOf(int64_t number, const uint64_t* arguments, int64_t result,
                         const ArgumentMemory& before, const ReadMemory& read) {
  const CallFrame call = {number, arguments, result, before, read};
  SyscallOutputs out;
  if (!SpecialOutputs(call, &out)) {
    const SyscallShape* shape = FindSyscallShape(number);
    if (shape == nullptr) {
      out.known = false;
    } else {
      out.writes_files = shape->writes_files;
      for (const Output& output : shape->outputs) AddOutput(output, call, &out);
    }
  }
  const auto empty = [](const MemoryRange& range) { return range.address == 0 || range.size == 0; };
  for (auto* ranges : {&out.written, &out.perhaps_written, &out.unfilled, &out.remapped}) {
    ranges->erase(std::remove_if(ranges->begin(), ranges->end(), empty), ranges->end());
  }
  if (FailsLate(result)) TakeAsWritten(&out);
  return out;
}

MemoryRange SignalFrame(uint64_t stack, uint64_t context, const ReadMemory& read) {
  // struct ucontext: flags, link, stack (24), then the general registers with fpregs at 23 * 8.
  constexpr uint64_t kFpregs = 40 + 23 * 8;
  // struct _fpstate: bytes 464 on are the kernel's own: magic1, extended_size.
  constexpr uint64_t kExtendedSize = 464 + 4;
  constexpr uint64_t kLargest = 64 << 10;  // with all that XSAVE knows today, AMX included
  constexpr uint64_t kLegacy = 1 << 10;    // context, siginfo, and no vectors to speak of
  const uint64_t vectors = ReadWord(read, context + kFpregs, 8).value_or(0);
  if (vectors < stack || vectors - stack > kLargest) return {stack, kLegacy};
  const uint64_t size = ReadWord(read, vectors + kExtendedSize, 4).value_or(0);
  const uint64_t end = vectors + std::clamp<uint64_t>(size, 512, kLargest);
  return {stack, end - stack};
}

}  // namespace hindsight
