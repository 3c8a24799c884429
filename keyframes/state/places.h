// Places of a recording that a user wants to come back to: named ones, and those visited.
//
// A place is a moment of the timeline and the thread looked at there. Copyable. One thread at a
// time.

#ifndef HINDSIGHT_KEYFRAMES_STATE_PLACES_H_
#define HINDSIGHT_KEYFRAMES_STATE_PLACES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "keyframes/state/position.h"

namespace hindsight {

struct Place {
  uint64_t moment = 0;
  int32_t thread = 0;
  bool operator==(const Place&) const = default;
};

class Places {
 public:
  // kInvalidArgument for a name that is none: letters, digits and "._-", at most 64; or if there
  // are too many.
  absl::Status SetBookmark(absl::string_view name, const Position& position);
  // Null: there is none of that name.
  const Position* bookmark(absl::string_view name) const;
  bool RemoveBookmark(absl::string_view name);
  const std::map<std::string, Position, std::less<>>& bookmarks() const { return bookmarks_; }

  // The user has come to `place`; what was ahead of the last one is forgotten. Nothing happens if
  // that was here.
  void Visit(const Place& place);
  // The place visited before or after the last one, which it becomes. nullopt: there is none.
  std::optional<Place> Back();
  std::optional<Place> Forward();

 private:
  std::map<std::string, Position, std::less<>> bookmarks_;
  std::vector<Place> visited_;
  size_t here_ = 0;  // in visited_, unless that is empty
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_STATE_PLACES_H_
