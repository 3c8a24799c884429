#include "recorder/translate/agent/exclusive_memory.h"

#include <errno.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <time.h>

#include "recorder/syscalls/trusted_calls.h"
#include "recorder/translate/agent/boot.h"
#include "recorder/translate/agent/client.h"
#include "recorder/translate/agent/direct_memory.h"
#include "recorder/translate/agent/recording.h"
#include "recorder/translate/base/system.h"
#include "recorder/translate/view/file_ranges.h"
#include "recorder/translate/view/own_regions.h"

namespace hindsight::agent {
namespace {

// Private memory that shows a file. Of the process; a child has its parent's.
constinit FileRanges file_ranges;

// Pages that were told because it was not known what a call had stored. To tell one takes as long
// as the comparisons of loads among so many instructions; so many take as long as to translate a
// program anew.
uint64_t pages_told;

constexpr uint64_t kInstructionsPerPage = 50'000, kFreePages = 20'000;
// Of so many it is not worth it even once.
constexpr uint64_t kMostToTell = 16'384;

bool IsSharedMapping(const GuestCall& mmap) {
  const uint64_t type = mmap.argument(3) & MAP_TYPE;
  return type == MAP_SHARED || type == MAP_SHARED_VALIDATE;
}

// As loaders of programs map libraries.
bool IsOfCode(const GuestCall& mmap) {
  return (mmap.argument(2) & PROT_EXEC) != 0 || (mmap.argument(3) & MAP_DENYWRITE) != 0;
}

// Whether the file's times tell when it was written, also by way of mappings, and what is mapped is
// nothing but its bytes.
bool IsOnDisk(uint64_t descriptor) {
  constexpr uint64_t kZfs = 0x2fc12fc1;
  struct statfs system = {};
  if (IsError(Call(SYS_fstatfs, descriptor, AddressOf(&system)))) return false;
  switch (static_cast<uint64_t>(system.f_type)) {
    case EXT4_SUPER_MAGIC:
    case XFS_SUPER_MAGIC:
    case BTRFS_SUPER_MAGIC:
    case F2FS_SUPER_MAGIC:
    case SQUASHFS_MAGIC:
    case EROFS_SUPER_MAGIC_V1:
    case OVERLAYFS_SUPER_MAGIC:
    case kZfs:
      return true;
    default:
      return false;
  }
}

// Nobody has changed the file, or made it, for so long.
bool IsAtRest(uint64_t descriptor, const struct stat& file, int64_t seconds) {
  timespec now = {};
  Call(SYS_clock_gettime, CLOCK_REALTIME, AddressOf(&now));
  return IsOnDisk(descriptor) && file.st_nlink != 0 && file.st_ctim.tv_sec + seconds < now.tv_sec;
}

bool IsOfSystem(const struct stat& file) {
  return file.st_uid == 0 && (file.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// In /usr, where programs find what does not change while they run.
bool IsInUsr(uint64_t descriptor) {
  constexpr char kUsr[] = {'/', 'u', 's', 'r', '/'};
  char path[sizeof(kUsr)];
  bool is = ReadPath(descriptor, path, sizeof(path)) == sizeof(path);
  for (uint64_t i = 0; is && i < sizeof(kUsr); ++i) is = path[i] == kUsr[i];
  return is;
}

// Whether the trace has the file's bytes: not of one that is large, or has no name.
bool IsStored(const struct stat& file) {
  return file.st_nlink != 0 && static_cast<uint64_t>(file.st_size) <= Boot().largest_module;
}

// Whether the mapping shows what others store, or may do so: then it must be seen when it is.
bool MapsWhatOthersChange(const GuestCall& mmap) {
  if ((mmap.argument(3) & MAP_ANONYMOUS) != 0) return IsSharedMapping(mmap);
  struct stat file = {};
  if (IsError(Call(SYS_fstat, mmap.argument(4), AddressOf(&file)))) return false;
  if (S_ISREG(file.st_mode) && !IsStored(file)) return true;
  FileKind kind = FileKind::kOther;
  if (KindByStat(file, &kind) && kind == FileKind::kDevice) return true;
  if (S_ISCHR(file.st_mode)) return IsSharedMapping(mmap);
  constexpr int64_t kMoment = 3, kLong = 3600;
  if (IsSharedMapping(mmap)) {
    return (mmap.argument(2) & PROT_WRITE) != 0 || !IsOfSystem(file) ||
           !IsAtRest(mmap.argument(4), file, IsInUsr(mmap.argument(4)) ? kMoment : kLong);
  }
  // Whether private mappings show what others write is left open by POSIX, so that hardly anybody
  // waits for it: it is enough that nobody is just writing the file.
  return !IsOfCode(mmap) && !IsAtRest(mmap.argument(4), file, kMoment);
}

constexpr uint64_t kLastAdvice = 25;  // MADV_COLLAPSE

bool LetsOthersStore(const GuestCall& call) {
  if (MapsTooMuch(call)) return true;
  switch (call.number()) {
    case SYS_mmap:  // a stack grows without a call
      return (call.argument(3) & MAP_GROWSDOWN) != 0 || MapsWhatOthersChange(call);
    case SYS_mprotect:  // what the same file shows elsewhere changes with stores there
      return (call.argument(2) & PROT_WRITE) != 0 &&
             file_ranges.Touches(call.argument(0), call.argument(0) + call.argument(1));
    case SYS_madvise:  // the kernel takes what it holds when it likes; or nobody knows
      return call.argument(2) == MADV_FREE || call.argument(2) > kLastAdvice;
    case SYS_shmat:
    case SYS_remap_file_pages:
    case SYS_process_madvise:
    case SYS_pkey_mprotect:  // rights that change without a call
      return true;
    default:
      return StartsAsynchronousWrites(call.number()) ||
             AllowsLaterStores(call.number(), call.words + 1);
  }
}

struct OpenFile {
  bool known;
  uint64_t descriptor;
  FileKind kind;
  bool is_regular;
  uint64_t device, inode;
};

OpenFile LookAt(uint64_t descriptor) {
  struct stat file = {};
  FileKind kind = FileKind::kOther;
  if (!IsError(Call(SYS_fstat, descriptor, AddressOf(&file))) && !KindByStat(file, &kind)) {
    struct statfs system = {};
    const int64_t result = Call(SYS_fstatfs, descriptor, AddressOf(&system));
    if (IsError(result) || system.f_type == PROC_SUPER_MAGIC) kind = FileKind::kOther;
  }
  return {true, descriptor, kind, S_ISREG(file.st_mode), file.st_dev, file.st_ino};
}

// Whether a descriptor that was a file's may be another one's afterwards. Others get numbers that
// are free.
bool FreesDescriptors(uint32_t number) {
  return number == SYS_close || number == SYS_close_range || number == SYS_dup2 ||
         number == SYS_dup3;
}

// Files that were looked at.
class OpenFiles {
 public:
  const OpenFile& At(uint64_t descriptor) {
    OpenFile& file = files_[descriptor % kMost];
    if (!file.known || file.descriptor != descriptor) file = LookAt(descriptor);
    return file;
  }
  void Forget() {
    for (OpenFile& file : files_) file.known = false;
  }

 private:
  static constexpr uint64_t kMost = 8;
  OpenFile files_[kMost] = {};
};

// Of the process; a child of vfork, which has this memory for a while, has others.
constinit OpenFiles open_files;

bool WritesFile(uint32_t number) {
  return number == SYS_write || number == SYS_pwrite64 || number == SYS_writev ||
         number == SYS_pwritev;
}

// The descriptor of the file that `made`, which is not trusted, may have changed; negative: none.
int64_t FileChangedBy(const GuestCall& made, int64_t result) {
  switch (made.number()) {
    case SYS_creat:
    case SYS_open:
    case SYS_openat:
    case SYS_openat2:
      return result;
    case SYS_ftruncate:
    case SYS_fallocate:
    case SYS_sendfile:
    case SYS_pwritev2:
    case SYS_ioctl:
      return static_cast<int32_t>(made.argument(0));
    case SYS_splice:
    case SYS_copy_file_range:
      return static_cast<int32_t>(made.argument(2));
    default:
      return -1;
  }
}

// Private memory shows what is written to its file, where it has not been stored to itself.
bool IsMapped(uint64_t device, uint64_t inode) {
  bool is = false;
  file_ranges.ForEach(device, inode, [&is](uint64_t, uint64_t) { is = true; });
  return is;
}

bool MayChangeMapped(const GuestCall& made, int64_t result) {
  if (!file_ranges.any()) return false;
  if (made.number() == SYS_truncate) return true;
  const int64_t descriptor = FileChangedBy(made, result);
  struct stat file = {};
  return descriptor >= 0 &&
         !IsError(Call(SYS_fstat, static_cast<uint64_t>(descriptor), AddressOf(&file))) &&
         IsMapped(file.st_dev, file.st_ino);
}

// Stores nothing, but it empties a file.
bool Opens(uint32_t number) {
  return number == SYS_open || number == SYS_openat || number == SYS_creat;
}

// What reads store lies in the buffer that they are given, whatever the file.
bool OnlyReads(uint32_t number) {
  return number == SYS_read || number == SYS_pread64 || number == SYS_readv ||
         number == SYS_preadv || number == SYS_lseek || number == SYS_getdents64;
}

template <typename Visit>
void ForEachBufferAt(uint64_t vector, uint64_t count, const Visit& visit) {
  for (uint64_t i = 0; i < count && i < IOV_MAX; ++i) {
    iovec part = {};
    if (!CopyGuest(&part, PointerTo<const iovec>(vector) + i, sizeof(part))) return;
    visit(AddressOf(part.iov_base), part.iov_len);
  }
}

// Calls `visit(start, bytes)` for what the call is given to store what it reads.
template <typename Visit>
void ForEachBuffer(const GuestCall& made, const Visit& visit) {
  const uint64_t start = made.argument(1), size = made.argument(2);
  msghdr message = {};
  switch (made.number()) {
    case SYS_read:
    case SYS_pread64:
    case SYS_getdents64:
    case SYS_recvfrom:
      return visit(start, size);
    case SYS_readv:
    case SYS_preadv:
      return ForEachBufferAt(start, size, visit);
    case SYS_recvmsg:
      if (!CopyGuest(&message, PointerTo<const msghdr>(start), sizeof(message))) return;
      return ForEachBufferAt(AddressOf(message.msg_iov), message.msg_iovlen, visit);
    default:
      return;
  }
}

// What has met the end of memory has stored up to there, and reports less.
bool MayHaveStoredMore(const GuestCall& made, int64_t result) {
  uint64_t room = 0;
  ForEachBuffer(made, [&](uint64_t, uint64_t bytes) { room += bytes; });
  if (static_cast<uint64_t>(result) >= room) return false;
  bool all_writable = true;
  ForEachBuffer(made, [&](uint64_t start, uint64_t bytes) {
    all_writable = all_writable && IsOwnWritable(start, start + bytes);
  });
  return !all_writable;
}

void NoteFileMap(Thread* thread, const GuestCall& made, uint64_t start) {
  struct stat file = {};
  if ((made.argument(3) & MAP_ANONYMOUS) != 0 || IsOfCode(made) ||
      IsError(Call(SYS_fstat, made.argument(4), AddressOf(&file)))) {
    return;
  }
  if (!file_ranges.Add({start, start + made.argument(1), file.st_dev, file.st_ino})) {
    ShareMemory(thread);
  }
}

// After one that has succeeded.
void TakeMemoryCall(Thread* thread, const GuestCall& made, uint64_t result) {
  const uint64_t start = made.argument(0), end = start + made.argument(1);
  if (made.number() == SYS_mmap) {
    NoteFileMap(thread, made, result);
  } else if (made.number() == SYS_munmap) {
    file_ranges.Remove(start, end);
  }
}

}  // namespace

bool IsMemoryExclusive() { return __atomic_load_n(&Control()->exclusive, __ATOMIC_RELAXED) != 0; }

void ShareMemory(Thread* thread) {
  if (!IsDirect(*thread)) return;
  TellUsedMemory(thread);
  TellSharedMemory(thread);
  Ask(thread, RequestKind::kShareMemory);
}

void ShareMemoryBefore(Thread* thread, const GuestCall& call) {
  if (IsDirect(*thread) && LetsOthersStore(call)) ShareMemory(thread);
}

void TakeUnknownOutputs(Thread* thread) {
  if (!IsDirect(*thread)) return;
  open_files.Forget();
  if (DirectPagesOf(*thread) > kMostToTell) return ShareMemory(thread);
  pages_told += TellAllStored(thread);
  // A child of vfork has not executed much; its parent has.
  if (thread->alone != 0) return;
  if (pages_told > kFreePages + thread->count / kInstructionsPerPage) ShareMemory(thread);
}

void ForgetAsChild() { pages_told = 0; }

void TakeOtherOutputs(Thread* thread, const GuestCall& made, int64_t result) {
  if (!IsDirect(*thread)) return;
  if (IsMemoryFileOpened()) return ShareMemory(thread);
  const int descriptor = FileOfCall(made.number(), made.words + 1);
  if (FreesDescriptors(made.number()) || thread->alone != 0) open_files.Forget();
  if (!StoresOnlyListedOutputs(made.number(), made.words + 1) || result == -EFAULT) {
    if (MayChangeMapped(made, result)) return ShareMemory(thread);
    if (Opens(made.number()) && result != -EFAULT) return;
    return TakeUnknownOutputs(thread);
  }
  if (IsError(result)) return;
  if (descriptor >= 0) {
    const OpenFile file = open_files.At(static_cast<uint64_t>(descriptor));
    if (file.kind == FileKind::kDevice) return ShareMemory(thread);
    if (!file.is_regular && MayHaveStoredMore(made, result)) return TakeUnknownOutputs(thread);
    if (file.kind == FileKind::kOther && !OnlyReads(made.number())) {
      return TakeUnknownOutputs(thread);
    }
    if (WritesFile(made.number()) && IsMapped(file.device, file.inode)) return ShareMemory(thread);
  }
  TakeMemoryCall(thread, made, static_cast<uint64_t>(result));
}

}  // namespace hindsight::agent
