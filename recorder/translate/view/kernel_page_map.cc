#include "recorder/translate/view/kernel_page_map.h"

#include <sys/ioctl.h>

namespace hindsight {
namespace {

// struct pm_scan_arg and PAGEMAP_SCAN of linux/fs.h, which older headers do not have.
struct ScanArguments {
  uint64_t size;
  uint64_t flags;
  uint64_t start;
  uint64_t end;
  uint64_t walk_end;
  uint64_t runs;
  uint64_t run_count;
  uint64_t max_pages;
  uint64_t category_inverted;
  uint64_t category_mask;
  uint64_t category_anyof_mask;
  uint64_t return_mask;
};
constexpr uint64_t kScan = _IOWR('f', 16, ScanArguments);

// Of an entry of pagemap.
constexpr int kUsedShift = 62, kFileShift = 61;

}  // namespace

bool KernelPageMap::scans_ = true;
KernelPageMap::Run KernelPageMap::runs_[KernelPageMap::kMostRuns];
uint64_t KernelPageMap::entries_[KernelPageMap::kMostEntries];

int64_t KernelPageMap::Fill(uint64_t* at, uint64_t end) {
  if (scans_) {
    const int64_t count = Scan(at, end);
    if (count >= 0) return count;
    scans_ = false;
  }
  return Read(at, end);
}

int64_t KernelPageMap::Scan(uint64_t* at, uint64_t end) {
  ScanArguments scan = {};
  scan.size = sizeof(scan);
  scan.start = *at;
  scan.end = end;
  scan.runs = reinterpret_cast<uint64_t>(runs_);
  scan.run_count = kMostRuns;
  scan.category_anyof_mask = kPresent | kSwapped;
  scan.return_mask = kFile;
  const int64_t count =
      RawCall(SYS_ioctl, static_cast<uint64_t>(file_), kScan, reinterpret_cast<uint64_t>(&scan));
  if (count < 0) return count;
  // Not what it says in walk_end: it collects 512 runs at a time, and if it comes to the end with
  // the next 512 it still says where the first ones ended (fs/proc/task_mmu.c, do_pagemap_scan).
  const uint64_t next = count < static_cast<int64_t>(kMostRuns) ? end : runs_[count - 1].end;
  if (next <= *at || next > end) return -1;
  *at = next;
  return count;
}

int64_t KernelPageMap::Read(uint64_t* at, uint64_t end) {
  uint64_t wanted = (end - *at) / kPage;
  if (wanted > kMostEntries) wanted = kMostEntries;
  const int64_t got =
      RawCall(SYS_pread64, static_cast<uint64_t>(file_), reinterpret_cast<uint64_t>(entries_),
              wanted * sizeof(entries_[0]), *at / kPage * sizeof(entries_[0]));
  if (got < static_cast<int64_t>(sizeof(entries_[0]))) return -1;
  uint64_t count = 0;
  for (uint64_t i = 0; i < static_cast<uint64_t>(got) / sizeof(entries_[0]); ++i, *at += kPage) {
    if (entries_[i] >> kUsedShift == 0) continue;
    if (count == kMostRuns) break;
    runs_[count++] = {*at, *at + kPage, (entries_[i] >> kFileShift & 1) != 0 ? kFile : 0};
  }
  return static_cast<int64_t>(count);
}

}  // namespace hindsight
