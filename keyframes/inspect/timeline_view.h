// A recorded process at its timeline's position.
//
// Borrows trace and timeline, which must outlive it. Only ListEvents moves the timeline, and it
// returns to where it was. Neither copyable nor movable. One host thread at a time.

#ifndef HINDSIGHT_KEYFRAMES_INSPECT_TIMELINE_VIEW_H_
#define HINDSIGHT_KEYFRAMES_INSPECT_TIMELINE_VIEW_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "keyframes/inspect/process_view.h"
#include "keyframes/inspect/recorded_objects.h"
#include "keyframes/timeline/timeline.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

class TimelineView final : public ProcessView {
 public:
  TimelineView(const TraceReader* trace, Timeline* timeline)
      : trace_(trace), timeline_(timeline), objects_(trace, &timeline->process()) {}
  TimelineView(const TimelineView&) = delete;
  TimelineView& operator=(const TimelineView&) = delete;

  int32_t pid() const override { return trace_->manifest().pid; }
  std::vector<int32_t> threads() const override { return timeline_->threads(); }
  bool IsAlive(int32_t thread) const override { return timeline_->IsAlive(thread); }
  std::string Missing() const override;
  std::string ThreadName(int32_t thread) const override;
  std::optional<int> ThreadProcessor(int32_t thread) override;

  absl::StatusOr<RegisterFile> Registers(int32_t thread) override;
  int64_t SyscallNumber(int32_t thread) const override;
  absl::StatusOr<std::string> SigInfo(int32_t thread) const override;

  absl::StatusOr<size_t> ReadMemory(int32_t thread, uint64_t address,
                                    absl::Span<uint8_t> out) override;
  bool IsUntouched(int32_t thread, uint64_t address) override;
  std::vector<MapRegion> Regions() const override;

  absl::StatusOr<std::string> Auxv() const override;
  std::string ExecutablePath() const override;
  LinkMap Libraries(MemoryReader memory) const override;
  absl::StatusOr<uint64_t> TlsAddress(uint64_t fs_base, uint64_t offset, uint64_t link_map,
                                      MemoryReader memory) override;

  absl::StatusOr<std::string> ReadLink(const std::string& path, MemoryReader memory) override;
  absl::StatusOr<std::string> FileContents(const std::string& path, MemoryReader memory) override;

  absl::StatusOr<std::string> ListEvents(const EventFilter& filter,
                                         const std::atomic<bool>* interrupt) override;

 private:
  const TraceReader* trace_;
  Timeline* timeline_;
  RecordedObjects objects_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_INSPECT_TIMELINE_VIEW_H_
