// A process as one snapshot of a sequence has it.
//
// Memory is what the snapshot holds. What it examined and did not find to be written is zeros, or
// the bytes of the file that is mapped there. The rest is not known.
//
// Borrows the trace, which must outlive it. Neither copyable nor movable. One host thread at a
// time.

#ifndef HINDSIGHT_KEYFRAMES_INSPECT_SNAPSHOT_VIEW_H_
#define HINDSIGHT_KEYFRAMES_INSPECT_SNAPSHOT_VIEW_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "keyframes/inspect/process_files.h"
#include "keyframes/inspect/process_view.h"
#include "keyframes/state/snapshot_list.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {

// Whether private memory of this mapping is zeros until it is written to.
bool BeginsAsZeros(const MapRegion& region);

class SnapshotView final : public ProcessView, private ProcessFacts {
 public:
  // At the first one. Requires: `snapshots` is not empty.
  SnapshotView(const TraceReader* trace, std::vector<SnapshotInfo> snapshots)
      : trace_(trace), snapshots_(std::move(snapshots)), files_(trace) {}
  SnapshotView(const SnapshotView&) = delete;
  SnapshotView& operator=(const SnapshotView&) = delete;

  const std::vector<SnapshotInfo>& snapshots() const { return snapshots_; }
  const SnapshotInfo& here() const { return snapshots_[index_]; }
  size_t index() const { return index_; }  // of here() in snapshots()
  void GoTo(size_t index) {
    index_ = index;
    page_address_ = kNoPage;
  }
  // The thread that triggered the snapshot, if it is alive, else the first.
  int32_t CurrentThread() const;

  int32_t pid() const override { return trace_->manifest().pid; }
  std::vector<int32_t> threads() const override;
  bool IsAlive(int32_t thread) const override { return StateOf(thread) != nullptr; }
  // Of a full keyframe of a recording: that it has no memory any more.
  std::string Missing() const override;
  std::string ThreadName(int32_t thread) const override;
  std::optional<int> ThreadProcessor(int32_t) override { return std::nullopt; }

  absl::StatusOr<RegisterFile> Registers(int32_t thread) override;
  int64_t SyscallNumber(int32_t thread) const override;
  absl::StatusOr<std::string> SigInfo(int32_t thread) const override;

  absl::StatusOr<size_t> ReadMemory(int32_t thread, uint64_t address,
                                    absl::Span<uint8_t> out) override;
  bool IsUntouched(int32_t thread, uint64_t address) override;
  std::vector<MapRegion> Regions() const override { return here().keyframe->maps(); }

  absl::StatusOr<std::string> Auxv() const override;
  std::string ExecutablePath() const override;
  LinkMap Libraries(MemoryReader memory) const override;
  absl::StatusOr<uint64_t> TlsAddress(uint64_t fs_base, uint64_t offset, uint64_t link_map,
                                      MemoryReader memory) override;

  absl::StatusOr<std::string> ReadLink(const std::string& path, MemoryReader memory) override;
  absl::StatusOr<std::string> FileContents(const std::string& path, MemoryReader memory) override;

  // The snapshots before and after this one.
  absl::StatusOr<std::string> ListEvents(const EventFilter& filter,
                                         const std::atomic<bool>* interrupt) override;

 private:
  static constexpr uint64_t kNoPage = 1;  // not the address of a page

  const FullKeyframe::ThreadState* StateOf(int32_t thread) const;
  const ThreadKernelState* KernelStateOf(int32_t thread) const;  // null: not in the trace
  const MapRegion* RegionOf(uint64_t address) const;
  absl::Status ReadPage(uint64_t page, absl::Span<uint8_t> out) const;

  // ProcessFacts.
  absl::Span<const uint64_t> AuxvWords() const override;
  std::string CommandLine(MemoryReader) const override;
  std::vector<int32_t> Threads() const override { return threads(); }
  int32_t ModuleAt(uint64_t address) const override;

  const TraceReader* trace_;
  const std::vector<SnapshotInfo> snapshots_;
  ProcessFiles files_;
  size_t index_ = 0;
  // The page that was read last.
  uint64_t page_address_ = kNoPage;
  std::array<uint8_t, kPageBytes> page_ = {};
};

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_INSPECT_SNAPSHOT_VIEW_H_
