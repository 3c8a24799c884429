// Watched memory during a replay: what records did to it. (What instructions did to it, the Cpu
// reports.)

#ifndef HINDSIGHT_KEYFRAMES_REPLAY_WATCHED_MEMORY_H_
#define HINDSIGHT_KEYFRAMES_REPLAY_WATCHED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "emulator/cpu/cpu.h"

namespace hindsight {

struct WatchHit {
  uint64_t count = 0;  // the state before the transition
  size_t index = 0;    // of the watchpoint
  uint64_t address = 0;
  // Not empty: the thread's view has not changed. What was stored there, of this watchpoint and
  // others.
  std::vector<Watchpoints::Hit> silent = {};
};

// The part of a watched range that lies in `page`, as offset into the page; size 0: none.
struct WatchedPart {
  uint64_t offset = 0;
  uint64_t size = 0;
};
WatchedPart WatchedIn(uint64_t page, const Watchpoint& watchpoint);

// A page that entered the view with watched bytes: whether they changed since an earlier segment
// cannot be decided from this segment alone.
struct WatchedImport {
  uint64_t count = 0;  // the state in which the page came
  size_t index = 0;    // of the watchpoint
  uint64_t page = 0;
  std::string bytes;  // the watched ones of the page, as imported
  // Lines of the page that another thread had before: they are not new to the process.
  uint64_t known_mask = 0;
  uint64_t keyframe = 0;  // number of the full keyframe whose bytes these are; 0: an import
};
// The first byte of `import` that is new to the process and differs from `before`, which is the
// same part of the page: its offset into both.
std::optional<uint64_t> FirstNewByte(const WatchedImport& import, const Watchpoint& watchpoint,
                                     absl::string_view before);

// Compares what records write with the watchpoints, and keeps the result until Clear.
class WatchedMemory {
 public:
  void SetWatchpoints(std::vector<Watchpoint> watchpoints) {
    watchpoints_ = std::move(watchpoints);
  }
  const std::vector<Watchpoint>& watchpoints() const { return watchpoints_; }

  void Clear();
  // The transition to the state `count` changes the bytes at `address`, which lie in one page, from
  // `before` to `after`. `known_mask`: lines of the page that are not new to the process.
  void NoteChange(uint64_t count, uint64_t address, const uint8_t* before,
                  absl::Span<const uint8_t> after, uint64_t known_mask);
  // In the state `count`, `page` enters the view with these contents (kPageBytes).
  void NotePage(uint64_t count, uint64_t page, const uint8_t* contents, uint64_t known_mask);

  // The first change noted.
  const std::optional<WatchHit>& change() const { return change_; }
  // Watched parts of the pages noted.
  const std::vector<WatchedImport>& imports() const { return imports_; }

 private:
  std::vector<Watchpoint> watchpoints_;
  std::optional<WatchHit> change_;
  std::vector<WatchedImport> imports_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_REPLAY_WATCHED_MEMORY_H_
