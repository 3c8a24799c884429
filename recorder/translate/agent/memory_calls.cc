// System calls that change what is mapped: they stay within the windows, and tell the recorder
// where code goes away.

#include <errno.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/vfs.h>

#include "recorder/syscalls/map_calls.h"
#include "recorder/translate/agent/calls.h"
#include "recorder/translate/agent/client.h"
#include "recorder/translate/agent/exclusive_memory.h"
#include "recorder/translate/agent/recording.h"
#include "recorder/translate/base/system.h"
#include "recorder/translate/limits/memory_usage.h"
#include "recorder/translate/limits/own_limits.h"
#include "recorder/translate/view/shared_ranges.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

namespace hindsight::agent {
namespace {

constexpr uint64_t kPageBytes = 4096;

// The stack has been mapped as large as it may become: the kernel counts what is used of one.
bool IsCountedMemory(uint64_t start, uint64_t end) {
  return InWindows(start, end) && end != kStackEnd;
}

// Of the process; a child of vfork, which has this memory for a while, has those of the kernel.
constinit OwnLimits own_limits(&IsCountedMemory);

uint64_t WholePages(uint64_t bytes) { return (bytes + kPageBytes - 1) & ~(kPageBytes - 1); }

void Make(GuestCall* call) {
  const uint64_t* w = call->words;
  call->set_result(Call(static_cast<long>(w[0]), w[1], w[2], w[3], w[4], w[5], w[6]));
}

// Who asks for addresses outside the windows gets others. Most programs take them, some after they
// have tried a hundred of their own (Go); one that gives back what it gets so often insists.
class IgnoredHints {
 public:
  bool AreInsistedOn() const { return __atomic_load_n(&given_back_, __ATOMIC_RELAXED) >= kMost; }
  void NoteMapped(uint64_t start, bool ignored) {
    if (!ignored) __atomic_store_n(&given_back_, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&last_, ignored ? start : 0, __ATOMIC_RELAXED);
  }
  void NoteUnmapped(uint64_t start) {
    const bool last = start != 0 && start == __atomic_load_n(&last_, __ATOMIC_RELAXED);
    const uint32_t before = __atomic_load_n(&given_back_, __ATOMIC_RELAXED);
    __atomic_store_n(&given_back_, last ? before + 1 : 0, __ATOMIC_RELAXED);
  }

 private:
  static constexpr uint32_t kMost = 1000;
  uint64_t last_ = 0;        // what was mapped last, elsewhere than it was asked for
  uint32_t given_back_ = 0;  // in a row
};

// Of the process.
constinit IgnoredHints ignored_hints;
constinit SharedRanges shared_ranges;

bool IsFixed(const GuestCall& mmap) {
  return (mmap.argument(3) & (MAP_FIXED | MAP_FIXED_NOREPLACE)) != 0;
}

// Whether it asks for a certain place, if possible, that is outside the windows.
bool HintsOutside(const GuestCall& mmap) {
  const uint64_t start = mmap.argument(0);
  return start != 0 && !IsFixed(mmap) && !InWindows(start, start + WholePages(mmap.argument(1)));
}

// Whether the kernel would not give the memory anywhere, as far as one can tell: it counts what can
// be written to and is not shared (Documentation/mm/overcommit-accounting, mode 0).
bool IsMoreThanThereIs(uint64_t bytes, uint64_t protection, uint64_t flags) {
  const bool counted =
      (protection & PROT_WRITE) != 0 && (flags & MAP_PRIVATE) != 0 && (flags & MAP_NORESERVE) == 0;
  struct sysinfo info = {};
  if (!counted || Call(SYS_sysinfo, AddressOf(&info)) != 0) return false;
  return bytes / info.mem_unit > info.totalram + info.totalswap;
}

// Smaller mappings always have a place in the windows.
constexpr uint64_t kLarge = kGiB;

// Whether a mapping, at no certain address, has its place in the address space natively, but not in
// the windows.
bool IsTooLarge(const GuestCall& mmap) {
  constexpr uint64_t kAddressSpace = uint64_t{1} << 47;
  const uint64_t bytes = WholePages(mmap.argument(1));
  const bool maybe =
      bytes >= kLarge && bytes < kAddressSpace && (mmap.argument(3) & MAP_HUGETLB) == 0;
  if (!maybe || !own_limits.Allows(SYS_mmap, mmap.words + 1)) return false;
  GuestCall trial = mmap;
  if (HintsOutside(mmap)) trial.set_argument(0, 0);
  trial.set_argument(3, mmap.argument(3) & ~uint64_t{MAP_POPULATE | MAP_LOCKED});
  Make(&trial);
  const auto start = static_cast<uint64_t>(trial.result());
  if (IsError(trial.result())) {
    return trial.result() == -ENOMEM &&
           !IsMoreThanThereIs(bytes, mmap.argument(2), mmap.argument(3));
  }
  Call(SYS_munmap, start, bytes);
  return !InWindows(start, start + bytes);
}

// The same of a mapping that grows, and may move. It is as it was afterwards.
bool GrowsTooLarge(const GuestCall& mremap) {
  const uint64_t old_start = mremap.argument(0), old_bytes = WholePages(mremap.argument(1));
  const uint64_t bytes = WholePages(mremap.argument(2));
  const bool maybe = bytes >= kLarge && old_bytes != 0 && bytes > old_bytes;
  if (!maybe || !own_limits.Allows(SYS_mremap, mremap.words + 1)) return false;
  GuestCall trial = mremap;
  Make(&trial);
  if (IsError(trial.result())) return false;
  const auto start = static_cast<uint64_t>(trial.result());
  const uint64_t back = start == old_start ? 0 : MREMAP_MAYMOVE | MREMAP_FIXED;
  Call(SYS_mremap, start, bytes, old_bytes, back, old_start);
  return !InWindows(start, start + bytes);
}

// What the kernel has chosen; taken back if it is out of bounds.
void KeepInWindows(GuestCall* call, uint64_t bytes) {
  const auto start = static_cast<uint64_t>(call->result());
  if (IsError(call->result()) || InWindows(start, start + bytes)) return;
  Call(SYS_munmap, start, bytes);
  call->set_result(-ENOMEM);
}

// Something else is there from now on.
void Forget(Thread* thread, uint64_t start, uint64_t end) {
  Invalidate(thread, start, end);
  DropInAllViews(thread, start, end);
}

// Whether no call on [start, end) changes anything, wherever that is: the kernel says why.
bool IsKernelsToRefuse(uint64_t start, uint64_t end) {
  constexpr uint64_t kAddressSpace = (uint64_t{1} << 47) - kPageBytes;
  return end <= start || end > kAddressSpace || start % kPageBytes != 0;
}

void HandleMmap(Thread* thread, GuestCall* call) {
  const uint64_t start = call->argument(0), bytes = WholePages(call->argument(1));
  const bool fixed = IsFixed(*call), ignored = HintsOutside(*call);
  const bool within = InWindows(start, start + bytes);
  if (fixed && !within && !IsKernelsToRefuse(start, start + bytes)) {
    // Who asks like that has another place in mind for when this one is taken; and it may be, by
    // the recorder's memory.
    call->set_result((call->argument(3) & MAP_FIXED_NOREPLACE) != 0 ? -EEXIST : -ENOMEM);
    return;
  }
  if (!fixed && !within) call->set_argument(0, 0);
  Make(call);
  KeepInWindows(call, bytes);
  // What failed may have been done in part.
  const bool replaces = (call->argument(3) & MAP_FIXED) != 0 || !IsError(call->result());
  if (fixed && within && replaces) Forget(thread, start, start + bytes);
  if (IsError(call->result())) return;
  ignored_hints.NoteMapped(static_cast<uint64_t>(call->result()), ignored);
}

void HandleMremap(Thread* thread, GuestCall* call) {
  const uint64_t old_start = call->argument(0), old_bytes = WholePages(call->argument(1));
  const uint64_t bytes = WholePages(call->argument(2)), to = call->argument(4);
  const bool fixed = (call->argument(3) & MREMAP_FIXED) != 0;
  if (!InWindows(old_start, old_start + old_bytes)) {
    call->set_result(-EFAULT);
    return;
  }
  if (fixed && !InWindows(to, to + bytes)) {
    call->set_result(-ENOMEM);
    return;
  }
  Make(call);
  Forget(thread, old_start, old_start + old_bytes);
  if (fixed) Forget(thread, to, to + bytes);
}

void HandleShmat(GuestCall* call) {
  // The segment's size is not known: an address is taken only where it may be as large as it likes.
  if (!InWindows(call->argument(1), call->argument(1))) call->set_argument(1, 0);
  Make(call);
  const auto start = static_cast<uint64_t>(call->result());
  if (IsError(call->result()) || InWindows(start, start)) return;
  Call(SYS_shmdt, start);
  call->set_result(-ENOMEM);
}

// Of files that a process maps only to read, those in memory are what others write to: most others
// are data of libraries.
bool MayOthersWrite(const GuestCall& mmap) {
  if ((mmap.argument(3) & MAP_ANONYMOUS) != 0 || (mmap.argument(2) & PROT_WRITE) != 0) return true;
  struct statfs status = {};
  return Call(SYS_fstatfs, mmap.argument(4), AddressOf(&status)) == 0 &&
         status.f_type == TMPFS_MAGIC;
}

// Of System V shared memory.
uint64_t BytesOfSegment(uint64_t id) {
  shmid_ds status = {};
  return Call(SYS_shmctl, id, IPC_STAT, AddressOf(&status)) == 0 ? status.shm_segsz : 0;
}

// What the heap gives back is something else when it has it again.
void HandleBrk(Thread* thread, GuestCall* call) {
  const auto before = static_cast<uint64_t>(Call(SYS_brk, 0));
  Make(call);
  const uint64_t start = WholePages(static_cast<uint64_t>(call->result()));
  if (start < WholePages(before)) Forget(thread, start, WholePages(before));
}

// Calls on [argument 0, + argument 1).
void HandleRangeCall(Thread* thread, GuestCall* call) {
  const uint64_t start = call->argument(0), end = start + WholePages(call->argument(1));
  const uint32_t number = call->number();
  if (IsKernelsToRefuse(start, end)) {
    Make(call);
    return;
  }
  if (!InWindows(start, end)) {
    // Nothing of the program's is there.
    call->set_result(number == SYS_munmap ? 0 : -ENOMEM);
    return;
  }
  Make(call);
  const bool protects = number == SYS_mprotect || number == SYS_pkey_mprotect;
  if (protects && call->argument(2) == (PROT_READ | PROT_EXEC)) return;
  if (number == SYS_munmap && !IsError(call->result())) ignored_hints.NoteUnmapped(start);
  Invalidate(thread, start, end);
  const uint64_t advice = number == SYS_madvise ? call->argument(2) : MADV_NORMAL;
  // A load that is not compared faults in the view.
  const bool unreadable = protects && (call->argument(2) & PROT_READ) == 0 && IsMemoryExclusive();
  if (number == SYS_munmap || DropsContents(advice) || unreadable) {
    DropInAllViews(thread, start, end);
  }
}

bool HasCapability(uint32_t capability) {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  return Call(SYS_capget, AddressOf(&header), AddressOf(data)) == 0 &&
         (data[capability / 32].effective >> capability % 32 & 1) != 0;
}

// What the kernel would say. It would lock what is the agent's as well, gigabytes that are never
// used, and could not be given back as long as they are locked.
int64_t LockAll(uint64_t flags) {
  constexpr uint64_t kWhich = MCL_CURRENT | MCL_FUTURE;
  if ((flags & kWhich) == 0 || (flags & ~(kWhich | MCL_ONFAULT)) != 0) return -EINVAL;
  if (HasCapability(CAP_IPC_LOCK)) return 0;
  rlimit limit = {};
  Call(SYS_prlimit64, 0, RLIMIT_MEMLOCK, 0, AddressOf(&limit));
  if (limit.rlim_cur == 0) return -EPERM;
  const uint64_t present = CountMemory(0, 0, &IsCountedMemory).total.all;
  return (flags & MCL_CURRENT) == 0 || present <= limit.rlim_cur ? 0 : -ENOMEM;
}

// What a call that sets a limit, or asks for one, is about.
struct LimitCall {
  bool is_kept;
  uint64_t resource;
  uint64_t set, get;  // addresses of limits; 0: none
};

LimitCall AnalyseLimitCall(const Thread& thread, const GuestCall& call) {
  const auto kept = [](uint64_t resource) { return OwnLimits::IsKept(resource); };
  switch (call.number()) {
    case SYS_setrlimit:
      return {kept(call.argument(0)), call.argument(0), call.argument(1), 0};
    case SYS_getrlimit:
      return {kept(call.argument(0)), call.argument(0), 0, call.argument(1)};
    case SYS_prlimit64: {
      const auto process = static_cast<int32_t>(call.argument(0));
      const bool own = process == 0 || process == thread.process_id;
      return {own && kept(call.argument(1)), call.argument(1), call.argument(2), call.argument(3)};
    }
    default:
      return {};
  }
}

int64_t AnswerLimitCall(const LimitCall& call) {
  rlimit wanted = {};
  if (call.set != 0 && !CopyGuest(&wanted, PointerTo<void>(call.set), sizeof(wanted))) {
    return -EFAULT;
  }
  const rlimit before = own_limits.Get(call.resource);
  const int64_t error = call.set != 0 ? own_limits.Set(call.resource, wanted) : 0;
  if (error != 0 || (call.get == 0 && call.set != 0)) return error;
  return CopyGuest(PointerTo<void>(call.get), &before, sizeof(before)) ? 0 : -EFAULT;
}

}  // namespace

bool HandleLimitCall(const Thread& thread, GuestCall* call) {
  if (thread.alone != 0) return false;
  const LimitCall limits = AnalyseLimitCall(thread, *call);
  if (!limits.is_kept) return false;
  call->set_result(AnswerLimitCall(limits));
  return true;
}

bool IsMemoryLimited() { return own_limits.IsAny(); }

void InstallLimits() { own_limits.Install(); }

bool MapsOutOfReach(const GuestCall& call) {
  uint64_t start, bytes;
  if (call.number() == SYS_mmap) {
    if (HintsOutside(call) && ignored_hints.AreInsistedOn()) return true;
    if (!IsFixed(call)) return IsTooLarge(call);
    if ((call.argument(3) & MAP_FIXED_NOREPLACE) != 0) return false;
    start = call.argument(0), bytes = call.argument(1);
  } else if (call.number() == SYS_mremap) {
    if ((call.argument(3) & MREMAP_FIXED) == 0) return GrowsTooLarge(call);
    start = call.argument(4), bytes = call.argument(2);
  } else {
    return false;
  }
  const uint64_t end = start + WholePages(bytes);
  return !InWindows(start, end) && !IsKernelsToRefuse(start, end);
}

bool HandleMemoryCall(Thread* thread, GuestCall* call) {
  if (!own_limits.Allows(call->number(), call->words + 1)) {
    call->set_result(call->number() == SYS_brk ? Call(SYS_brk, 0) : -ENOMEM);
    return true;
  }
  switch (call->number()) {
    case SYS_mmap:
      HandleMmap(thread, call);
      return true;
    case SYS_mremap:
      HandleMremap(thread, call);
      return true;
    case SYS_munmap:
    case SYS_mprotect:
    case SYS_pkey_mprotect:
    case SYS_madvise:
      HandleRangeCall(thread, call);
      return true;
    case SYS_shmat:
      HandleShmat(call);
      return true;
    case SYS_brk:
      HandleBrk(thread, call);
      return true;
    case SYS_mlockall:
      call->set_result(LockAll(call->argument(0)));
      return true;
    default:
      return false;
  }
}

void NoteSharedMap(const GuestCall& made, int64_t result) {
  if (IsError(result)) return;
  const auto start = static_cast<uint64_t>(result);
  switch (made.number()) {
    case SYS_mmap: {
      const uint64_t end = start + WholePages(made.argument(1));
      shared_ranges.Remove(start, end);
      if ((made.argument(3) & MAP_SHARED) != 0 && MayOthersWrite(made)) {
        shared_ranges.Add(start, end);
      }
      return;
    }
    case SYS_shmat:
      return shared_ranges.Add(start, start + BytesOfSegment(made.argument(0)));
    case SYS_munmap:
      return shared_ranges.Remove(made.argument(0),
                                  made.argument(0) + WholePages(made.argument(1)));
    default:
      return;
  }
}

bool HasSharedMaps() { return shared_ranges.any(); }
bool IsInSharedMap(uint64_t address) {
  return shared_ranges.any() && shared_ranges.Contains(address);
}

}  // namespace hindsight::agent
