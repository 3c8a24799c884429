// View: the private view of one guest thread as host memory.
//
// Guest memory lies in chunks of kChunkBytes, made when first needed. Each chunk is memory
// mapped twice: at `guest`, whose pages carry the access rights the view grants and which generated
// code uses; and at `host`, always readable and writable, through which we fill and inspect pages
// without touching rights. The memory is sparse: pages never used cost nothing.
//
// A region is a range that Unicorn maps as one: host addresses that follow each other as the
// guest's do. The time Unicorn needs for them grows with the square of their number, so only the
// first regions are one chunk each; later ones are windows, in which chunks are made as they are
// needed. An access to a part of a window without a chunk faults.
//
// Rights are logical. What the host's page tables grant may be less (never more): then the next
// access faults and Regrant() grants what is allowed. That bounds the number of host mappings, of
// which the kernel allows a process 65,530: all Views together use most of them, and leave the
// rest to others.
//
// It has somewhat more methods than other classes: chunks, regions, rights and contents of pages
// are one data structure. Not copyable, not movable. One thread at a time.

#ifndef HINDSIGHT_EMULATOR_VIEW_VIEW_H_
#define HINDSIGHT_EMULATOR_VIEW_VIEW_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "emulator/view/page_table.h"
#include "tracefmt/records.h"

namespace hindsight {

class View {
 public:
  // Sparse memory makes size free.
  static constexpr uint64_t kChunkBytes = uint64_t{256} << 20;
  static constexpr uint64_t kPagesPerChunk = kChunkBytes / kPageBytes;
  // User addresses end here (47 bits); beyond them nothing can be mapped.
  static constexpr uint64_t kAddressLimit = uint64_t{1} << 47;

  struct Chunk {
    uint64_t base = 0;
    uint8_t* guest = nullptr;
    uint8_t* host = nullptr;
    PageTable pages;
    int64_t runs = 1;  // of pages granted the same: host mappings
  };
  struct Region {
    uint64_t base = 0;
    uint64_t bytes = 0;
    uint8_t* guest = nullptr;
  };

  View() = default;
  ~View();
  View(const View&) = delete;
  View& operator=(const View&) = delete;

  Chunk* Find(uint64_t address) const {
    const uint64_t base = address & ~(kChunkBytes - 1);
    Chunk* const found = found_[Slot(address)];
    return found != nullptr && found->base == base ? found : FindSlow(base);
  }
  // nullptr above kAddressLimit or if the host has no memory left.
  Chunk* FindOrCreate(uint64_t address);
  // Of a chunk that exists, or of a window's part without one; else nullptr.
  const Region* RegionOf(uint64_t address) const;
  // The guest address of the byte that `pointer` points to; false if that is in no region.
  bool GuestAddress(const void* pointer, uint64_t* address) const;

  // Host mappings of all Views of this process. Any thread.
  static int64_t HostMappings();
  // For tests: a limit in place of the kernel's.
  static void LimitHostMappings(int64_t limit);

  // nullptr only where FindOrCreate gives nullptr.
  uint8_t* HostPage(uint64_t page);
  PageRights rights(uint64_t page) const;
  void SetRights(uint64_t page, PageRights rights);
  void ProtectWrites(absl::Span<const uint64_t> pages);
  void DropRights(absl::Span<const uint64_t> pages);
  void DropAllRights();
  // Drops all rights and frees the memory of the contents, which become zeros.
  void Release(absl::Span<const uint64_t> pages);
  // Frees a chunk of which all pages are released. Requires: Unicorn does not have its region
  // mapped, unless that is a window.
  void RemoveChunk(uint64_t base);

  bool is_code(uint64_t page) const;
  // Code pages are kept unwritable on the host so that a write to one is noticed.
  void SetCode(uint64_t page, bool code);

  // Grants on the host what the logical rights allow.
  void Regrant(uint64_t page);
  // Lets generated code run on after a refused access: grants all rights on the host, until
  // Regrant. The program reads garbage there, so its state must be thrown away.
  void Poison(uint64_t page);

  bool ReadHeld(uint64_t address, absl::Span<uint8_t> out) const;
  // Where the bytes lie, for an access that needs no fault handling: on one page, which has the
  // rights and, to be written, no translated code. nullptr: otherwise.
  uint8_t* Direct(uint64_t address, size_t size, bool write) const {
    const uint64_t offset = address % kPageBytes;
    if (offset + size > kPageBytes) return nullptr;
    const Chunk* const chunk = Find(address);
    if (chunk == nullptr) return nullptr;
    const uint64_t index = (address - chunk->base) / kPageBytes;
    const PageRights rights = chunk->pages.rights(index);
    const bool may = write ? rights == PageRights::kReadWrite && !chunk->pages.code(index)
                           : rights != PageRights::kNone;
    return may ? chunk->host + (address - chunk->base) : nullptr;
  }

 private:
  const Region* MakeRegion(uint64_t chunk);
  bool Occupied(uint64_t base, uint64_t bytes) const;
  bool MapChunk(const Region& region, Chunk* chunk);
  void Unmap(const Chunk& chunk);
  PageRights Allowed(const Chunk& chunk, uint64_t index) const;
  void Grant(Chunk& chunk, uint64_t first, uint64_t count, PageRights rights);
  void TakeBack(Chunk& chunk);
  bool Protect(Chunk& chunk, uint64_t first, uint64_t count, PageRights rights);
  void LowerRights(absl::Span<const uint64_t> pages, PageRights to);

  static size_t Slot(uint64_t address) { return address / kChunkBytes % kSlots; }
  Chunk* FindSlow(uint64_t base) const;

  static constexpr size_t kSlots = 64;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Chunk>> chunks_;  // by base
  std::map<uint64_t, Region> regions_;                            // by base
  std::map<const uint8_t*, uint64_t> by_pointer_;                 // bases of regions
  mutable std::array<Chunk*, kSlots> found_ = {};                 // the last one of each slot
};

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_VIEW_VIEW_H_
