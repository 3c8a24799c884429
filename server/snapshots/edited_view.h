// A process at rest with what a debugger has written to its memory. The process itself does not
// change.
//
// Borrows `original`, which must outlive it. Neither copyable nor movable. One thread at a time.

#ifndef HINDSIGHT_SERVER_SNAPSHOTS_EDITED_VIEW_H_
#define HINDSIGHT_SERVER_SNAPSHOTS_EDITED_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "keyframes/inspect/process_view.h"

namespace hindsight {

class EditedView final : public ProcessView {
 public:
  explicit EditedView(ProcessView* original) : original_(original) {}
  EditedView(const EditedView&) = delete;
  EditedView& operator=(const EditedView&) = delete;

  // What was written, by address: not empty, and without overlaps.
  const std::map<uint64_t, std::string>& edits() const { return edits_; }
  void Clear() { edits_.clear(), edited_bytes_ = 0; }
  // All bytes or none; kNotFound: not all of it is mapped. kResourceExhausted: too much was
  // written.
  absl::Status WriteMemory(uint64_t address, absl::Span<const uint8_t> bytes);

  absl::StatusOr<size_t> ReadMemory(int32_t thread, uint64_t address,
                                    absl::Span<uint8_t> out) override;
  bool IsUntouched(int32_t thread, uint64_t address) override;

  // The rest is the original's.
  int32_t pid() const override { return original_->pid(); }
  std::vector<int32_t> threads() const override { return original_->threads(); }
  bool IsAlive(int32_t thread) const override { return original_->IsAlive(thread); }
  std::string Missing() const override { return original_->Missing(); }
  std::string ThreadName(int32_t thread) const override { return original_->ThreadName(thread); }
  std::optional<int> ThreadProcessor(int32_t thread) override {
    return original_->ThreadProcessor(thread);
  }
  absl::StatusOr<RegisterFile> Registers(int32_t thread) override {
    return original_->Registers(thread);
  }
  int64_t SyscallNumber(int32_t thread) const override { return original_->SyscallNumber(thread); }
  absl::StatusOr<std::string> SigInfo(int32_t thread) const override {
    return original_->SigInfo(thread);
  }
  std::vector<MapRegion> Regions() const override { return original_->Regions(); }
  absl::StatusOr<std::string> Auxv() const override { return original_->Auxv(); }
  std::string ExecutablePath() const override { return original_->ExecutablePath(); }
  LinkMap Libraries(MemoryReader memory) const override { return original_->Libraries(memory); }
  absl::StatusOr<uint64_t> TlsAddress(uint64_t fs_base, uint64_t offset, uint64_t link_map,
                                      MemoryReader memory) override {
    return original_->TlsAddress(fs_base, offset, link_map, memory);
  }
  absl::StatusOr<std::string> ReadLink(const std::string& path, MemoryReader memory) override {
    return original_->ReadLink(path, memory);
  }
  absl::StatusOr<std::string> FileContents(const std::string& path, MemoryReader memory) override {
    return original_->FileContents(path, memory);
  }
  absl::StatusOr<std::string> ListEvents(const EventFilter& filter,
                                         const std::atomic<bool>* interrupt) override {
    return original_->ListEvents(filter, interrupt);
  }

 private:
  using Edits = std::map<uint64_t, std::string>;

  bool IsMapped(uint64_t address, uint64_t size) const;
  // The first edit that ends after `address`.
  Edits::iterator EndingAfter(uint64_t address);

  ProcessView* original_;
  Edits edits_;
  uint64_t edited_bytes_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_SNAPSHOTS_EDITED_VIEW_H_
