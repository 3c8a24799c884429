#include "recorder/translate/view/view_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "recorder/translate/view/raw_call.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

namespace hindsight {
namespace {

constexpr uint64_t kPage = 4096;
constexpr int32_t kNoFile = -1;

// Out of the way of a program that counts on the lowest free one.
constexpr uint64_t kHighDescriptor = 1000;

int64_t Control(int32_t file, uint64_t request, void* argument) {
  return RawCall(SYS_ioctl, static_cast<uint64_t>(file), request,
                 reinterpret_cast<uint64_t>(argument));
}

// A userfaultfd whose faults are signals; or an error.
int64_t OpenFile() {
  const int64_t file = RawCall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
  if (file < 0) return file;
  uffdio_api api = {};
  api.api = UFFD_API;
  api.features = UFFD_FEATURE_SIGBUS;
  const int64_t agreed = Control(static_cast<int32_t>(file), UFFDIO_API, &api);
  const int64_t high = agreed != 0 ? agreed
                                   : RawCall(SYS_fcntl, static_cast<uint64_t>(file),
                                             F_DUPFD_CLOEXEC, kHighDescriptor);
  if (agreed == 0 && high < 0) return file;
  RawCall(SYS_close, static_cast<uint64_t>(file));
  return high;
}

}  // namespace

void ViewMemory::Init(uint64_t distance, const ViewWindow* windows, int count, Shared* shared) {
  distance_ = distance;
  windows_ = windows;
  window_count_ = count;
  shared_ = shared;
  runs_ = 0;
  by_presence_ = broken_ = false;
}

void ViewMemory::AddRuns(int64_t change) {
  runs_ += static_cast<uint64_t>(change);
  __atomic_fetch_add(&shared_->runs, static_cast<uint64_t>(change), __ATOMIC_RELAXED);
}

bool ViewMemory::IsCrowded() const {
  return runs_ > kSomeRuns && __atomic_load_n(&shared_->runs, __ATOMIC_RELAXED) > kManyRuns;
}

int32_t ViewMemory::File() const {
  const int32_t present = __atomic_load_n(&shared_->file, __ATOMIC_ACQUIRE);
  if (present != 0) return present;
  const int64_t opened = OpenFile();
  const int32_t file = opened > 0 ? static_cast<int32_t>(opened) : kNoFile;
  int32_t none = 0;
  if (__atomic_compare_exchange_n(&shared_->file, &none, file, false, __ATOMIC_ACQ_REL,
                                  __ATOMIC_ACQUIRE)) {
    return file;
  }
  // Another thread was faster.
  if (file != kNoFile) RawCall(SYS_close, static_cast<uint64_t>(file));
  return none;
}

bool ViewMemory::ChangeToPresence() {
  const int32_t file = File();
  if (file == kNoFile) return false;
  for (int i = 0; i < window_count_; ++i) {
    const uint64_t start = windows_[i].start + distance_;
    const uint64_t bytes = windows_[i].end - windows_[i].start;
    uffdio_register range = {};
    range.range = {start, bytes};
    range.mode = UFFDIO_REGISTER_MODE_MISSING;
    broken_ |= Control(file, UFFDIO_REGISTER, &range) != 0;
  }
  // Now that what is missing is noticed.
  for (int i = 0; i < window_count_; ++i) {
    const uint64_t start = windows_[i].start + distance_;
    const uint64_t bytes = windows_[i].end - windows_[i].start;
    broken_ |= broken_ || RawCall(SYS_mprotect, start, bytes, PROT_READ | PROT_WRITE) != 0;
  }
  by_presence_ = true;
  AddRuns(-static_cast<int64_t>(runs_));
  return !broken_;
}

bool ViewMemory::Put(uint64_t page, const uint8_t* bytes, int neighbours) {
  if (broken_) return false;
  const uint64_t seen = page + distance_;
  if (!by_presence_ && (!IsCrowded() || !ChangeToPresence())) {
    if (RawCall(SYS_mprotect, seen, kPage, PROT_READ | PROT_WRITE) == 0) {
      __builtin_memcpy(reinterpret_cast<void*>(seen), bytes, kPage);
      AddRuns(1 - neighbours);
      return true;
    }
    if (!ChangeToPresence()) return false;
  }
  uffdio_copy copy = {};
  copy.dst = seen;
  copy.src = reinterpret_cast<uint64_t>(bytes);
  copy.len = kPage;
  // The kernel asks for another try if the map changes meanwhile.
  int64_t result;
  do {
    copy.copy = 0;
    result = Control(shared_->file, UFFDIO_COPY, &copy);
  } while (result == -EAGAIN);
  if (result == -EEXIST) __builtin_memcpy(reinterpret_cast<void*>(seen), bytes, kPage);
  return result == 0 || result == -EEXIST;
}

void ViewMemory::Remove(uint64_t start, uint64_t end, int64_t change) {
  const uint64_t seen = start + distance_, bytes = end - start;
  if (!by_presence_) {
    RawCall(SYS_mprotect, seen, bytes, PROT_NONE);
    AddRuns(change);
  }
  RawCall(SYS_madvise, seen, bytes, MADV_DONTNEED);
}

void ViewMemory::GiveUp() {
  if (runs_ != 0) AddRuns(-static_cast<int64_t>(runs_));
}

}  // namespace hindsight
