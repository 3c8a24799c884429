// Which guest state each place in translated code stands for, whoever executes it: no two blocks of
// a recording have the same place.
//
// Borrows what is added. Not copyable. Any host thread, at any time.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_MEMO_GUEST_PLACES_H_
#define HINDSIGHT_RECORDER_TRANSLATE_MEMO_GUEST_PLACES_H_

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>

#include "absl/container/btree_map.h"
#include "recorder/translate/memo/page_image.h"
#include "recorder/translate/memo/translation.h"

namespace hindsight {

// A guest's state within translated code: see SideEntry.
struct GuestPlace {
  uint64_t guest_pc = 0;
  int64_t adjust = 0;
  std::array<uint8_t, 4> saved = {};
};

class GuestPlaces {
 public:
  GuestPlaces() = default;
  GuestPlaces(const GuestPlaces&) = delete;
  GuestPlaces& operator=(const GuestPlaces&) = delete;

  void Add(const Translation* block);
  // All blocks of `page`, which lies at `host`.
  void Add(const PageImage* page, uint64_t host);

  // nullopt: not translated from any guest instruction.
  std::optional<GuestPlace> At(uint64_t host) const;

 private:
  mutable std::mutex mutex_;
  // By host; guarded by mutex_.
  absl::btree_map<uint64_t, const Translation*> blocks_;
  absl::btree_map<uint64_t, const PageImage*> pages_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_MEMO_GUEST_PLACES_H_
