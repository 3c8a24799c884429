// Where the engine `translate` puts its own memory in the program's address space, and what is in
// the shared memory file behind it.
//
// The program keeps to three windows of just under 128 GiB, in which the kernel maps what it is
// asked for under personality(ADDR_NO_RANDOMIZE | ADDR_COMPAT_LAYOUT). Ours lies between them:
//
//   0 .. 128 GiB                      window: programs without PIE
//   k x 128 GiB .. + 16 MiB           gap of the thread with distance D = k x 128 GiB + 16 MiB;
//                                     the first one's also has the agent and what threads share
//   D .. D + 128 GiB                  view of the first window, and so on
//   ..                                tables of the views, rings
//   .. 0x2aaaaaa00000                 block map, arena for code of the second window
//   0x2aaaaaaa0000 .. + 128 GiB       window: libraries, the vdso; at its end the stack
//   .. 0x555555400000                 arena for code of the other windows
//   0x555555400000 .. + 128 GiB       window: PIE and heap
//
// Used by the agent as well: no library.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_BASE_LAYOUT_H_
#define HINDSIGHT_RECORDER_TRANSLATE_BASE_LAYOUT_H_

#include <stdint.h>

namespace hindsight {

inline constexpr uint64_t kKiB = 1024, kMiB = 1024 * kKiB, kGiB = 1024 * kMiB, kTiB = 1024 * kGiB;

struct AddressWindow {
  uint64_t start = 0, end = 0;
  constexpr bool Has(uint64_t from, uint64_t to) const { return start <= from && to <= end; }
};

// From one thread's gap to the next one's: what windows are large, threads are few.
inline constexpr uint64_t kStride = 128 * kGiB;
// A view is a window shifted by a distance: the slack keeps the gaps free.
inline constexpr uint64_t kWindowBytes = kStride - 32 * kMiB;
inline constexpr AddressWindow kLowWindow = {0, kWindowBytes};
inline constexpr AddressWindow kLibraryWindow = {0x2aaaaaaa0000, 0x2aaaaaaa0000 + kWindowBytes};
// From where the kernel maps PIEs, rounded down to the largest alignment that linkers ask for.
inline constexpr AddressWindow kPieWindow = {0x555555400000, 0x555555400000 + kWindowBytes};

constexpr bool InWindows(uint64_t from, uint64_t to) {
  return from <= to &&
         (kLowWindow.Has(from, to) || kLibraryWindow.Has(from, to) || kPieWindow.Has(from, to));
}

// Gaps. Offsets are from the gap's start.
inline constexpr uint64_t kGapBytes = 16 * kMiB;
inline constexpr uint64_t kFirstThread = 1, kLastThread = 300;
constexpr uint64_t GapOf(uint64_t thread) { return thread * kStride; }
constexpr uint64_t DistanceOf(uint64_t thread) { return GapOf(thread) + kGapBytes; }

inline constexpr uint64_t kAgentImage = GapOf(kFirstThread);  // the linker script has it as well
inline constexpr uint64_t kAgentImageLimit = kMiB;
inline constexpr uint64_t kControlAddress = kAgentImage + 2 * kMiB;
inline constexpr uint64_t kControlBytes = kMiB;
// The alternate stack takes the kernel's signal frame with all vector registers, and no guest's.
inline constexpr uint64_t kAgentStackOffset = 12 * kMiB, kAgentStackBytes = 256 * kKiB;
inline constexpr uint64_t kSignalStackOffset = 12 * kMiB + 512 * kKiB,
                          kSignalStackBytes = 128 * kKiB;
inline constexpr uint64_t kActionsOffset = kSignalStackOffset + kSignalStackBytes;
// The words of the state before an instruction that is executed natively.
inline constexpr uint64_t kStepStateOffset = kActionsOffset + 64 * kKiB;

// What the agent knows of a thread's view, between the views of the low window and the libraries.
inline constexpr uint64_t kViewTablesBytes = 128 * kMiB;
constexpr uint64_t ViewTablesOf(uint64_t thread) {
  return DistanceOf(kLastThread + 1) + thread * kViewTablesBytes;
}

// What threads tell the recorder (stream/record_ring.h).
inline constexpr uint64_t kRings = ViewTablesOf(kLastThread + 1), kRingBytes = 8 * kMiB;
constexpr uint64_t RingOf(uint64_t thread) { return kRings + thread * kRingBytes; }

// Translated code. Both arenas are at most 2 GiB away from what is usually mapped in their window.
inline constexpr uint64_t kArenaBytes = 512 * kMiB;
inline constexpr uint64_t kLibraryArena = 0x2aaaaaa00000 - kArenaBytes;
inline constexpr uint64_t kPieArena = 0x555555400000 - kArenaBytes;
constexpr bool InArenas(uint64_t address) {
  return address - kLibraryArena < kArenaBytes || address - kPieArena < kArenaBytes;
}

// Guest pc -> host address, for pcs that a thread's own table does not have: open addressing.
// Written by the recorder alone.
struct BlockMapEntry {
  uint64_t guest_pc;  // 0: free. Written after `host`
  uint64_t host;      // 0: no longer translated. Of a block, perhaps with kReadsFlags
};
// The guest's status flags are read from there on. Host addresses are multiples of 8.
inline constexpr uint64_t kReadsFlags = 1;
// With this in place of a pc from which on flags are read: what the table of indirect branches may
// say of it (translator/thread_block.h).
constexpr uint64_t IndirectTo(uint64_t guest_pc) { return guest_pc | uint64_t{1} << 62; }
inline constexpr uint64_t kBlockMapBits = 21;
inline constexpr uint64_t kBlockMapEntries = uint64_t{1} << kBlockMapBits;
inline constexpr uint64_t kBlockMapBytes = kBlockMapEntries * sizeof(BlockMapEntry);
inline constexpr uint64_t kBlockMap = kLibraryArena - 2 * kBlockMapBytes;
// Neighbours lie together, so that few pages of the map are touched.
constexpr uint64_t BlockMapIndex(uint64_t guest_pc) {
  return ((guest_pc >> 4) + (guest_pc >> 23) * 0x9e3779b1) % kBlockMapEntries;
}

// The initial stack's new end: the window's, but for a page that is never mapped.
inline constexpr uint64_t kStackEnd = kLibraryWindow.end - 64 * kKiB;
// What an unlimited stack gets.
inline constexpr uint64_t kLargestStackBytes = 16 * kGiB;

// The memory file of a process.
inline constexpr uint64_t kControlInFile = 0;
inline constexpr uint64_t kImageInFile = kControlInFile + kControlBytes;
inline constexpr uint64_t kBlockMapInFile = 8 * kMiB;
inline constexpr uint64_t kLibraryArenaInFile = 64 * kMiB;
inline constexpr uint64_t kPieArenaInFile = kLibraryArenaInFile + kArenaBytes;
inline constexpr uint64_t kRingsInFile = kPieArenaInFile + kArenaBytes;
constexpr uint64_t RingInFile(uint64_t thread) { return kRingsInFile + thread * kRingBytes; }
inline constexpr uint64_t kFileBytes = RingInFile(kLastThread + 1);

static_assert(RingOf(kLastThread + 1) <= kBlockMap);
static_assert(kLibraryWindow.end + DistanceOf(kLastThread) <= kPieArena);
static_assert(kPieWindow.end + DistanceOf(kLastThread) < uint64_t{1} << 47);
static_assert(kBlockMapInFile + kBlockMapBytes <= kLibraryArenaInFile);
static_assert(kImageInFile + kAgentImageLimit <= kBlockMapInFile);

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_BASE_LAYOUT_H_
