// Checkpoints of one Cpu in memory: states to go back to, with logs of the pages changed since.
//
// A checkpoint is the Cpu's registers and, for every page changed between it and the next one, the
// page's contents before. Going back applies these pre-images, newest first. Pages are write
// protected at a checkpoint (Cpu::ProtectWrites), so only pages really written cost anything.
//
// The user announces every page that enters the view and every page about to change, and
// stores with each checkpoint one number of its own (the record cursor).
//
// Borrows the Cpu. Not copyable, not movable. One thread at a time.

#ifndef HINDSIGHT_KEYFRAMES_REPLAY_CHECKPOINTS_H_
#define HINDSIGHT_KEYFRAMES_REPLAY_CHECKPOINTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "emulator/cpu/cpu.h"
#include "tracefmt/records.h"

namespace hindsight {

class Checkpoints {
 public:
  explicit Checkpoints(Cpu* cpu) : cpu_(cpu) {}
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;

  // Pages of the view in the order they entered it.
  const std::vector<uint64_t>& held_pages() const { return held_; }

  size_t size() const { return checkpoints_.size(); }
  // Memory of the pre-images (buffers kept for reuse included) and saved registers, about.
  uint64_t bytes() const;
  // Pages logged since the newest checkpoint: what taking checkpoints costs here.
  uint64_t dirty_pages() const { return dirty_.size(); }
  // Count of the newest checkpoint at or before `count`.
  std::optional<uint64_t> NewestAtOrBefore(uint64_t count) const;
  // Count of the `n`-th newest checkpoint before `count`, from 1.
  std::optional<uint64_t> NthBefore(uint64_t count, size_t n) const;
  // Whether `page` may have been written, or have entered the view, between states [low, high) of
  // those up to the present. True if that is not known.
  bool MayHaveChanged(uint64_t page, uint64_t low, uint64_t high) const;

  // Forgets all checkpoints and empties the view.
  void Reset();
  // `page` enters the view, writable.
  void AddPage(uint64_t page);
  // The contents of `page`, which is held, are about to change; makes it writable.
  void BeforeChange(uint64_t page);
  // The same from Pager::OnFirstWrite, where the Cpu itself makes the page writable.
  void OnFirstWrite(uint64_t page);

  // Checkpoints the present state; nothing if there is one of this count.
  // Requires: the Cpu is exact, and not before the newest checkpoint.
  void Take(size_t cursor);
  // Goes back to the newest checkpoint at or before `count`, forgets those after it, and returns
  // its cursor. The Cpu may be inexact. Requires: there is such a checkpoint.
  size_t Restore(uint64_t count);
  // Drops checkpoints, those far from the present first, until at most `max_bytes` are used and
  // their number is moderate. What is left is dense near the present and thin far from it.
  void Thin(uint64_t max_bytes);

 private:
  using PageBytes = std::array<uint8_t, kPageBytes>;
  struct PreImage {
    uint64_t page = 0;
    std::unique_ptr<PageBytes> bytes;
  };
  struct Checkpoint {
    uint64_t count = 0;
    size_t cursor = 0;
    size_t held = 0;  // this many of held_ were in the view
    RegisterFile registers;
    std::vector<PreImage> changed;  // each page at most once
  };

  std::unique_ptr<PageBytes> NewImage();
  void FreeImages(std::vector<PreImage>* images);
  void ApplyImages(size_t index);
  void DropPagesFrom(size_t held);
  // Removes checkpoint `index`; the one before it takes over the pre-images it needs.
  void Drop(size_t index);
  void DropSparse(size_t max_checkpoints);

  Cpu* const cpu_;
  std::vector<Checkpoint> checkpoints_;  // ascending counts
  std::vector<uint64_t> held_;
  absl::flat_hash_map<uint64_t, size_t> held_index_;  // inverse of held_
  // Pages that are kReadWrite: their pre-image is in the newest checkpoint, or they entered the
  // view after it.
  std::vector<uint64_t> dirty_;
  std::vector<std::unique_ptr<PageBytes>> free_;
  uint64_t images_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_REPLAY_CHECKPOINTS_H_
