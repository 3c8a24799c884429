#include "server/snapshots/edited_view.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace hindsight {
namespace {

// gdb's `restore FILE` writes whatever it is given.
constexpr uint64_t kMostBytes = uint64_t{1} << 30;

}  // namespace

EditedView::Edits::iterator EditedView::EndingAfter(uint64_t address) {
  auto edit = edits_.upper_bound(address);
  if (edit == edits_.begin()) return edit;
  const auto before = std::prev(edit);
  return address - before->first < before->second.size() ? before : edit;
}

bool EditedView::IsMapped(uint64_t address, uint64_t size) const {
  uint64_t mapped = 0;  // bytes from address on
  for (const MapRegion& region : original_->Regions()) {
    if (region.end <= address + mapped) continue;
    if (region.start > address + mapped) break;
    mapped = region.end - address;
    if (mapped >= size) return true;
  }
  return size == 0;
}

absl::Status EditedView::WriteMemory(uint64_t address, absl::Span<const uint8_t> bytes) {
  if (bytes.empty()) return absl::OkStatus();
  if (address + bytes.size() < address || !IsMapped(address, bytes.size())) {
    return absl::NotFoundError(absl::StrCat("no memory at 0x", absl::Hex(address)));
  }
  if (edited_bytes_ + bytes.size() > kMostBytes) {
    return absl::ResourceExhaustedError("too many bytes were written to the copy");
  }
  const uint64_t end = address + bytes.size();
  uint64_t start = address;
  std::string merged(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (auto edit = EndingAfter(address); edit != edits_.end() && edit->first < end;) {
    const uint64_t edit_end = edit->first + edit->second.size();
    if (edit_end > end) merged += edit->second.substr(end - edit->first);
    if (edit->first < start) {
      merged.insert(0, edit->second, 0, start - edit->first);
      start = edit->first;
    }
    edited_bytes_ -= edit->second.size();
    edit = edits_.erase(edit);
  }
  edited_bytes_ += merged.size();
  edits_[start] = std::move(merged);
  return absl::OkStatus();
}

absl::StatusOr<size_t> EditedView::ReadMemory(int32_t thread, uint64_t address,
                                              absl::Span<uint8_t> out) {
  size_t done = 0;
  while (done < out.size()) {
    const uint64_t at = address + done;
    size_t size = out.size() - done;
    const auto edit = EndingAfter(at);
    if (edit != edits_.end() && edit->first <= at) {
      const std::string& bytes = edit->second;
      size = std::min<size_t>(size, bytes.size() - (at - edit->first));
      std::memcpy(out.data() + done, bytes.data() + (at - edit->first), size);
      done += size;
      continue;
    }
    if (edit != edits_.end()) size = std::min<size_t>(size, edit->first - at);
    const absl::StatusOr<size_t> known = original_->ReadMemory(thread, at, out.subspan(done, size));
    if (!known.ok() && done > 0) return done;
    RETURN_IF_ERROR(known.status());
    done += *known;
    if (*known < size) break;
  }
  return done;
}

bool EditedView::IsUntouched(int32_t thread, uint64_t address) {
  const uint64_t page = address - address % kPageBytes;
  const auto edit = EndingAfter(page);
  const bool edited = edit != edits_.end() && edit->first < page + kPageBytes;
  return !edited && original_->IsUntouched(thread, address);
}

}  // namespace hindsight
