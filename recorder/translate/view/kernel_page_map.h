// Which pages of its memory the process has used, as the kernel says
// (Documentation/admin-guide/mm/pagemap.rst): by a scan, which passes over what is not there, or,
// before Linux 6.7, entry by entry.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_VIEW_KERNEL_PAGE_MAP_H_
#define HINDSIGHT_RECORDER_TRANSLATE_VIEW_KERNEL_PAGE_MAP_H_

#include <fcntl.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "recorder/translate/view/raw_call.h"

namespace hindsight {

// Holds /proc/self/pagemap open. One at a time.
//
// Runs inside the program: no library, no allocation, general registers only.
class KernelPageMap {
 public:
  KernelPageMap() {
    const char path[] = "/proc/self/pagemap";
    file_ = RawCall(SYS_open, reinterpret_cast<uint64_t>(path), O_RDONLY | O_CLOEXEC);
  }
  ~KernelPageMap() {
    if (file_ >= 0) RawCall(SYS_close, static_cast<uint64_t>(file_));
  }
  KernelPageMap(const KernelPageMap&) = delete;
  KernelPageMap& operator=(const KernelPageMap&) = delete;

  // Calls `visit(page, is_own)` for pages of [start, end), ascending, that are used: present, or
  // swapped out. Own is what is not what a file has there; so are zeros that were only read. False:
  // that is not known.
  template <typename Visit>
  bool ForEachUsed(uint64_t start, uint64_t end, const Visit& visit) {
    for (uint64_t at = start; at < end;) {
      const int64_t count = Fill(&at, end);
      if (count < 0) return false;
      for (int64_t i = 0; i < count; ++i) {
        for (uint64_t page = runs_[i].start; page < runs_[i].end; page += kPage) {
          visit(page, (runs_[i].categories & kFile) == 0);
        }
      }
    }
    return true;
  }

  // Whether the kernel is asked to scan, as long as it does not refuse to. For tests.
  static void SetScans(bool scans) { scans_ = scans; }

 private:
  // struct page_region, and the categories, of linux/fs.h.
  struct Run {
    uint64_t start;
    uint64_t end;
    uint64_t categories;
  };
  static constexpr uint64_t kFile = 1 << 2, kPresent = 1 << 3, kSwapped = 1 << 4;
  static constexpr uint64_t kPage = 4096;
  static constexpr uint64_t kMostRuns = 1024, kMostEntries = 4096;

  // Used pages from *at on, into runs_; *at is where to go on. Negative: they are not known.
  int64_t Fill(uint64_t* at, uint64_t end);
  int64_t Scan(uint64_t* at, uint64_t end);
  int64_t Read(uint64_t* at, uint64_t end);

  static bool scans_;  // the kernel has not refused to yet
  static Run runs_[kMostRuns];
  static uint64_t entries_[kMostEntries];
  int64_t file_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_VIEW_KERNEL_PAGE_MAP_H_
