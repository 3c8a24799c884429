#include "recorder/translate/agent/direct_memory.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include "recorder/syscalls/map_calls.h"
#include "recorder/translate/agent/exclusive_memory.h"
#include "recorder/translate/agent/recording.h"
#include "recorder/translate/base/system.h"
#include "recorder/translate/view/direct_pages.h"
#include "recorder/translate/view/hidden_ranges.h"
#include "recorder/translate/view/kernel_page_map.h"
#include "recorder/translate/view/own_regions.h"

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif

namespace hindsight::agent {
namespace {

constexpr uint64_t kPageBytes = DirectPages::kPage;
// Reading what the kernel knows of more takes as long as comparing loads.
constexpr uint64_t kLargestMemory = kGiB / 2;
// Who reads a segment makes an import of each page of it that is mapped, each time that it is, and
// has memory for some two million of them.
constexpr uint64_t kMostMappedPages = 1 << 20;

uint64_t WholePages(uint64_t bytes) { return (bytes + kPageBytes - 1) & ~(kPageBytes - 1); }
uint64_t PageOf(uint64_t address) { return address & ~(kPageBytes - 1); }

// Of the process; a child of vfork, which has this memory for a while, stands for it.
constinit DirectPages direct_pages;
uint64_t heap_end;  // the break
constinit HiddenRanges hidden;

// Whether the kernel has the processor look at protection keys.
bool HasProtectionKeys() {
  uint32_t a = 7, b, c = 0, d;
  asm volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  constexpr uint32_t kInUse = 1 << 4;
  return (c & kInUse) != 0;
}

uint32_t ProtectionKeyRights() {
  uint32_t rights, zero;
  asm volatile("rdpkru" : "=a"(rights), "=d"(zero) : "c"(0));
  return rights;
}

void SetProtectionKeyRights(uint32_t rights) {
  asm volatile("wrpkru" : : "a"(rights), "c"(0), "d"(0) : "memory");
}

// Of this image: a function of others is reached through a table, which there is none of. Memory
// that may only be executed is read too: it may be what it is once it may be read again.
bool ReadGuest(void* to, const void* from, uint64_t bytes) {
  if (CopyGuest(to, from, bytes)) return true;
  if (!HasProtectionKeys()) return false;
  const uint32_t rights = ProtectionKeyRights();
  SetProtectionKeyRights(0);
  const bool is_read = CopyGuest(to, from, bytes);
  SetProtectionKeyRights(rights);
  return is_read;
}

DirectPages& PagesOf(const Thread& thread) {
  direct_pages.Init(&ReadGuest, &WriterOf(thread));
  return direct_pages;
}

struct Telling {
  Thread* thread;
  DirectPages* pages;
};

// One walk over all that is mapped.
struct Walk : Telling {
  KernelPageMap table;
  uint64_t count = 0;   // pages told
  uint64_t walked = 0;  // bytes
  bool known = true;
};

// The pages of its own that a walk has come upon when a segment ended: what the next begins with,
// if nothing is executed in between.
class OwnPages {
 public:
  void Clear() { count_ = 0; }
  void Add(uint64_t page) {
    if (count_ < kMost) pages_[count_] = page;
    ++count_;
  }
  void Lose() { count_ = kMost + 1; }
  bool are_all() const { return count_ <= kMost; }
  uint64_t count() const { return count_; }
  uint64_t operator[](uint64_t i) const { return pages_[i]; }

 private:
  static constexpr uint64_t kMost = 4096;
  uint64_t count_ = 0;
  uint64_t pages_[kMost] = {};
};

OwnPages own_pages;

bool TakesPart(Walk* walk, const OwnRegion& region) {
  if (!region.readable || region.is_clock) return false;
  walk->walked += region.end - region.start;
  return walk->known;
}

void TellOwnPages(Walk* walk, uint64_t start, uint64_t end) {
  walk->known &= walk->table.ForEachUsed(start, end, [walk](uint64_t page, bool is_own) {
    if (is_own && walk->pages->TellPage(page, walk->thread->count)) ++walk->count;
  });
}

// Nothing maps it, as far as the trace knows.
void TellVdsoOf(void* context, const OwnRegion& region) {
  auto* const telling = static_cast<Telling*>(context);
  if (!region.is_vdso) return;
  for (uint64_t page = region.start; page < region.end; page += kPageBytes) {
    telling->pages->TellPage(page, telling->thread->count);
  }
}

void TellOwnOf(void* context, const OwnRegion& region) {
  auto* const walk = static_cast<Walk*>(context);
  TellVdsoOf(static_cast<Telling*>(walk), region);
  if (!TakesPart(walk, region) || region.shared || region.is_vdso) return;
  TellOwnPages(walk, region.start, region.end);
}

void AddUsedOf(void* context, const OwnRegion& region) {
  auto* const walk = static_cast<Walk*>(context);
  if (!TakesPart(walk, region)) return;
  const bool may_be_own = !region.shared && !region.is_vdso;
  walk->known &= walk->table.ForEachUsed(region.start, region.end,
                                         [walk, may_be_own](uint64_t page, bool is_own) {
                                           walk->pages->AddUsed(page, walk->thread->count);
                                           if (may_be_own && is_own) own_pages.Add(page);
                                         });
}

// Those of [start, end), whatever is mapped there.
void TellUsedIn(Thread* thread, uint64_t start, uint64_t end) {
  if (end <= start || !InWindows(start, end)) return;
  DirectPages& pages = PagesOf(*thread);
  KernelPageMap table;
  const bool known = table.ForEachUsed(
      start, end, [&](uint64_t page, bool) { pages.AddUsed(page, thread->count); });
  pages.TellUsed(/*all=*/false, thread->count);
  if (!known) ShareMemory(thread);
}

void TellOwnIn(Thread* thread, uint64_t start, uint64_t end) {
  Walk walk = {{thread, &PagesOf(*thread)}};
  TellOwnPages(&walk, start, end);
  if (!walk.known) ShareMemory(thread);
}

// Some of it may be something else than before.
void TellAnew(Thread* thread, uint64_t start, uint64_t end) {
  if (PageOf(start) != start || end <= start || !InWindows(start, end)) return;
  hidden.Change(start, end);
  PagesOf(*thread).TellMapped(start, end, thread->count);
  TellOwnIn(thread, start, end);
}

// Whether nobody is asked about the memory any more. Of mprotect, and mmap.
bool Hides(const GuestCall& call) {
  return (call.argument(2) & (PROT_READ | PROT_WRITE | PROT_EXEC)) == 0;
}

void TellRemapped(Thread* thread, const GuestCall& made, uint64_t result) {
  const uint64_t old_start = made.argument(0), old_bytes = WholePages(made.argument(1));
  const uint64_t bytes = WholePages(made.argument(2));
  DirectPages& pages = PagesOf(*thread);
  const bool is_hidden = hidden.AnyIn(old_start, old_start + old_bytes);
  if ((made.argument(3) & MREMAP_DONTUNMAP) != 0) {
    hidden.Change(old_start, old_start + old_bytes);
    pages.TellMapped(old_start, old_start + old_bytes, thread->count);
  } else {
    hidden.Remove(old_start, old_start + old_bytes);
  }
  hidden.Remove(result, result + bytes);
  if (is_hidden) hidden.Add(result, result + bytes, /*told=*/false);
  pages.TellMapped(result, result + bytes, thread->count);
  TellOwnIn(thread, result, result + bytes);
}

// What it holds, if it may be accessed again, and changed or had not been told when it was hidden.
void TellProtected(Thread* thread, const GuestCall& made, bool succeeded) {
  const uint64_t start = made.argument(0), end = start + WholePages(made.argument(1));
  if (Hides(made)) return hidden.Add(start, end, /*told=*/true);
  hidden.ForEachUntold(start, end,
                       [thread](uint64_t from, uint64_t to) { TellAnew(thread, from, to); });
  if (succeeded) hidden.Remove(start, end);
}

void TellDropped(Thread* thread, uint64_t start, uint64_t end) {
  hidden.Change(start, end);
  PagesOf(*thread).TellMapped(start, end, thread->count);
}

void TellHeap(Thread* thread, uint64_t end) {
  const uint64_t before = WholePages(heap_end), after = WholePages(end);
  if (after > before) PagesOf(*thread).TellMapped(before, after, thread->count);
  heap_end = end;
}

}  // namespace

bool IsDirect(const Thread& thread) { return IsMemoryExclusive() && IsRecorded(thread); }

uint64_t TellFirstMemory(Thread* thread) {
  if (!IsDirect(*thread)) return 0;
  own_pages.Clear();
  hidden.BeginSegment();
  heap_end = static_cast<uint64_t>(Call(SYS_brk, 0));
  Walk walk = {{thread, &PagesOf(*thread)}};
  walk.pages->TellBegin(thread->count);
  walk.known &= ForEachOwnRegion(&TellOwnOf, &walk);
  walk.pages->TellOthersMapped(thread->count);
  if (!walk.known || walk.walked > kLargestMemory) ShareMemory(thread);
  return walk.count;
}

bool HasMappedMuch(const Thread& thread) {
  return IsDirect(thread) && direct_pages.mapped_pages() > kMostMappedPages;
}

bool MapsTooMuch(const GuestCall& call) {
  switch (call.number()) {
    case SYS_mmap:
      return call.argument(1) > kLargestMemory;
    case SYS_mremap:
      return call.argument(2) > kLargestMemory;
    case SYS_brk:
      return call.argument(0) > heap_end && call.argument(0) - heap_end > kLargestMemory;
    default:
      return false;
  }
}

uint64_t TellNextMemory(Thread* thread) {
  if (!IsDirect(*thread)) return 0;
  if (!own_pages.are_all()) return TellFirstMemory(thread);
  DirectPages& pages = PagesOf(*thread);
  hidden.BeginSegment();
  pages.TellBegin(thread->count);
  Telling vdso = {thread, &pages};
  ForEachOwnRegion(&TellVdsoOf, &vdso);
  for (uint64_t i = 0; i < own_pages.count(); ++i) pages.TellPage(own_pages[i], thread->count);
  pages.TellOthersMapped(thread->count);
  return own_pages.count();
}

void TellUsedMemory(Thread* thread) {
  if (!IsDirect(*thread)) return;
  own_pages.Clear();
  Walk walk = {{thread, &PagesOf(*thread)}};
  walk.known &= ForEachOwnRegion(&AddUsedOf, &walk);
  if (!walk.known) own_pages.Lose();
  walk.pages->TellUsed(walk.known, thread->count);
}

void TellSharedMemory(Thread* thread) {
  if (IsDirect(*thread)) PagesOf(*thread).TellShared(thread->count);
}

void TellUsedBefore(Thread* thread, const GuestCall& call) {
  if (!IsDirect(*thread)) return;
  const uint64_t start = PageOf(call.argument(0)), end = start + WholePages(call.argument(1));
  switch (call.number()) {
    case SYS_mmap:
      if ((call.argument(3) & MAP_FIXED) != 0) TellUsedIn(thread, start, end);
      return;
    case SYS_mremap:
      TellUsedIn(thread, start, end);
      if ((call.argument(3) & MREMAP_FIXED) != 0) {
        const uint64_t to = PageOf(call.argument(4));
        TellUsedIn(thread, to, to + WholePages(call.argument(2)));
      }
      return;
    case SYS_madvise:
      if (DropsContents(call.argument(2)) || call.argument(2) == MADV_PAGEOUT) {
        TellUsedIn(thread, start, end);
      }
      return;
    case SYS_mprotect:
      if (Hides(call)) TellUsedIn(thread, start, end);
      return;
    case SYS_munmap:
      return TellUsedIn(thread, start, end);
    case SYS_brk:
      return TellUsedIn(thread, WholePages(call.argument(0)), WholePages(heap_end));
    default:
      return;
  }
}

bool TellMemoryCall(Thread* thread, const GuestCall& made, uint64_t result) {
  if (MayChangeMap(made.number())) ForgetOwnRegions();
  const uint64_t start = made.argument(0), end = start + WholePages(made.argument(1));
  switch (made.number()) {
    case SYS_mmap: {
      const uint64_t mapped_end = result + WholePages(made.argument(1));
      hidden.Remove(result, mapped_end);
      if (Hides(made)) hidden.Add(result, mapped_end, /*told=*/false);
      PagesOf(*thread).TellMapped(result, mapped_end, thread->count);
      return true;
    }
    case SYS_munmap:
      hidden.Remove(start, end);
      return true;
    case SYS_mremap:
      TellRemapped(thread, made, result);
      return true;
    case SYS_madvise:
      if (DropsContents(made.argument(2))) TellDropped(thread, start, end);
      return true;
    case SYS_mprotect:
      TellProtected(thread, made, /*succeeded=*/true);
      return true;
    case SYS_brk:
      TellHeap(thread, result);
      return true;
    default:
      return false;
  }
}

bool TellFailedMemoryCall(Thread* thread, const GuestCall& made) {
  if (!MayChangeMap(made.number()) && made.number() != SYS_madvise) return false;
  ForgetOwnRegions();
  const uint64_t start = made.argument(0), end = start + WholePages(made.argument(1));
  switch (made.number()) {
    case SYS_mmap:
      if ((made.argument(3) & MAP_FIXED) != 0) TellAnew(thread, start, end);
      return true;
    case SYS_mremap:
      TellAnew(thread, start, end);
      if ((made.argument(3) & MREMAP_FIXED) != 0) {
        const uint64_t to = made.argument(4);
        TellAnew(thread, to, to + WholePages(made.argument(2)));
      }
      return true;
    case SYS_munmap:
      TellAnew(thread, start, end);
      return true;
    case SYS_madvise:
      if (DropsContents(made.argument(2))) TellAnew(thread, start, end);
      return true;
    case SYS_mprotect:
      TellProtected(thread, made, /*succeeded=*/false);
      return true;
    default:
      return false;
  }
}

bool TellStored(Thread* thread, uint64_t address, uint64_t bytes) {
  return PagesOf(*thread).TellStored(address, bytes, thread->count);
}

uint64_t TellAllStored(Thread* thread) {
  // A child of vfork may have mapped something.
  ForgetOwnRegions();
  Walk walk = {{thread, &PagesOf(*thread)}};
  walk.known &= ForEachOwnRegion(&TellOwnOf, &walk);
  if (!walk.known) ShareMemory(thread);
  return walk.count;
}

}  // namespace hindsight::agent
