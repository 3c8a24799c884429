#include "keyframes/state/places.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace hindsight {
namespace {

constexpr size_t kLongestName = 64;
constexpr size_t kMostBookmarks = 1000;
constexpr size_t kMostVisited = 1000;

bool IsName(absl::string_view text) {
  return !text.empty() && text.size() <= kLongestName &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
         });
}

}  // namespace

absl::Status Places::SetBookmark(absl::string_view name, const Position& position) {
  if (!IsName(name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a bookmark's name is of letters, digits and . _ -, at most ", kLongestName));
  }
  if (bookmarks_.size() == kMostBookmarks && bookmark(name) == nullptr) {
    return absl::InvalidArgumentError("there are too many bookmarks");
  }
  bookmarks_.insert_or_assign(std::string(name), position);
  return absl::OkStatus();
}

const Position* Places::bookmark(absl::string_view name) const {
  const auto found = bookmarks_.find(name);
  return found == bookmarks_.end() ? nullptr : &found->second;
}

bool Places::RemoveBookmark(absl::string_view name) {
  const auto found = bookmarks_.find(name);
  if (found == bookmarks_.end()) return false;
  bookmarks_.erase(found);
  return true;
}

void Places::Visit(const Place& place) {
  if (!visited_.empty()) {
    if (visited_[here_] == place) return;
    visited_.resize(here_ + 1);
    if (visited_.size() == kMostVisited) visited_.erase(visited_.begin());
  }
  visited_.push_back(place);
  here_ = visited_.size() - 1;
}

std::optional<Place> Places::Back() {
  if (visited_.empty() || here_ == 0) return std::nullopt;
  return visited_[--here_];
}

std::optional<Place> Places::Forward() {
  if (here_ + 1 >= visited_.size()) return std::nullopt;
  return visited_[++here_];
}

}  // namespace hindsight
