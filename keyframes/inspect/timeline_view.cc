#include "keyframes/inspect/timeline_view.h"

#include <chrono>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "keyframes/state/place_text.h"

namespace hindsight {
namespace {

// Reading the strings of system calls that are far apart means seeking to each; after this long the
// remaining ones are listed with their pointers.
constexpr std::chrono::seconds kMaxTimeForStrings(1);

}  // namespace

std::string TimelineView::Missing() const {
  return ThinnedText(timeline_->process(), timeline_->moment());
}

std::string TimelineView::ThreadName(int32_t thread) const {
  return objects_.ThreadName(thread, timeline_->moment());
}

std::optional<int> TimelineView::ThreadProcessor(int32_t thread) {
  return objects_.ThreadProcessor(thread, timeline_->moment());
}

absl::StatusOr<RegisterFile> TimelineView::Registers(int32_t thread) {
  return timeline_->registers(thread);
}

int64_t TimelineView::SyscallNumber(int32_t thread) const {
  const uint64_t count = timeline_->count(thread);
  const ThreadState& state = timeline_->thread_state(thread);
  const ProcessEvent* event = state.SyscallFrom(count);
  if (event == nullptr) event = state.PreviousSyscall(count);
  return event != nullptr && event->count >= count ? event->number : -1;
}

absl::StatusOr<std::string> TimelineView::SigInfo(int32_t thread) const {
  if (IsAlive(thread)) return objects_.SigInfo(thread, timeline_->moment());
  return absl::NotFoundError(absl::StrCat("no thread ", thread, " at this position"));
}

absl::StatusOr<size_t> TimelineView::ReadMemory(int32_t thread, uint64_t address,
                                                absl::Span<uint8_t> out) {
  return timeline_->ReadMemory(thread, address, out);
}

bool TimelineView::IsUntouched(int32_t thread, uint64_t address) {
  return timeline_->IsUntouched(thread, address).value_or(false);
}

std::vector<MapRegion> TimelineView::Regions() const {
  return timeline_->process().maps().CopyAt(timeline_->moment());
}

absl::StatusOr<std::string> TimelineView::Auxv() const {
  return objects_.Auxv(timeline_->moment());
}

std::string TimelineView::ExecutablePath() const {
  return objects_.ExecutablePath(timeline_->moment());
}

LinkMap TimelineView::Libraries(MemoryReader memory) const {
  return objects_.Libraries(timeline_->moment(), memory);
}

absl::StatusOr<uint64_t> TimelineView::TlsAddress(uint64_t fs_base, uint64_t offset,
                                                  uint64_t link_map, MemoryReader memory) {
  return objects_.TlsAddress(fs_base, offset, link_map, memory);
}

absl::StatusOr<std::string> TimelineView::ReadLink(const std::string& path, MemoryReader memory) {
  return objects_.ReadLink(path, timeline_->moment(), memory);
}

absl::StatusOr<std::string> TimelineView::FileContents(const std::string& path,
                                                       MemoryReader memory) {
  return objects_.FileContents(path, timeline_->moment(), memory);
}

absl::StatusOr<std::string> TimelineView::ListEvents(const EventFilter& filter,
                                                     const std::atomic<bool>* interrupt) {
  const uint64_t here = timeline_->moment();
  const auto start = std::chrono::steady_clock::now();
  const EventMemory memory = [&](const TimelineEvent& event) -> CallMemory {
    return [&, thread = event.event->thread, moment = event.moment](
               uint64_t address, absl::Span<uint8_t> out) -> size_t {
      if (std::chrono::steady_clock::now() - start > kMaxTimeForStrings || moment == 0) return 0;
      if (!timeline_->SeekTo(moment - 1, interrupt).ok()) return 0;
      if (!timeline_->IsAlive(thread)) return 0;
      return timeline_->ReadMemory(thread, address, out, interrupt).value_or(0);
    };
  };
  std::string text = hindsight::ListEvents(timeline_->process(), here, filter, memory);
  if (timeline_->moment() != here) RETURN_IF_ERROR(timeline_->SeekTo(here, nullptr));
  return text;
}

}  // namespace hindsight
