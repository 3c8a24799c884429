// A processor and the memory it runs in, copied page by page from a recorded process as it is
// touched. Can be rolled back to its last checkpoint.
//
// Neither copyable nor movable. One thread at a time.

#ifndef HINDSIGHT_SERVER_TARGET_SCRATCH_MACHINE_H_
#define HINDSIGHT_SERVER_TARGET_SCRATCH_MACHINE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "emulator/cpu/cpu.h"
#include "tracefmt/records.h"

namespace hindsight {

class ScratchMachine final : private Pager {
 public:
  // Reads the recording's memory: as many bytes of `out` as are known from its start.
  using MemorySource = std::function<size_t(uint64_t address, absl::Span<uint8_t> out)>;

  static absl::StatusOr<std::unique_ptr<ScratchMachine>> Create(std::vector<MapRegion> maps,
                                                                MemorySource source);
  ScratchMachine(const ScratchMachine&) = delete;
  ScratchMachine& operator=(const ScratchMachine&) = delete;

  Cpu& cpu() { return *cpu_; }

  // How many bytes of `out` are known from its start.
  size_t ReadMemory(uint64_t address, absl::Span<uint8_t> out);
  // Copies these bytes' pages, as an access of the program does, so that they are known: memory
  // that it has never used is zeros. kNotFound: there is no such memory.
  absl::Status Hold(uint64_t address, uint64_t size);
  // All bytes or none; kNotFound: there is no such memory. Ignores protection, as a debugger's
  // writes do.
  absl::Status WriteMemory(uint64_t address, absl::Span<const uint8_t> bytes);

  void Checkpoint();
  // Requires: a checkpoint, and no WriteMemory since.
  void RollBack();

  // Changes of the memory map, with the results of the system calls that ask for them.
  int64_t MoveBreak(uint64_t end);
  int64_t Protect(uint64_t start, uint64_t size, uint32_t protection);
  int64_t MapAnonymous(uint64_t size, uint32_t protection);

 private:
  ScratchMachine(std::vector<MapRegion> maps, MemorySource source)
      : maps_(std::move(maps)), source_(std::move(source)) {}

  // Pager.
  bool OnMissing(uint64_t page, Access access) override;
  bool OnFirstWrite(uint64_t page) override;

  const MapRegion* RegionOf(uint64_t address) const;
  bool Fetch(uint64_t page);
  // Since the checkpoint.
  std::vector<uint64_t> PagesWritten() const;

  std::vector<MapRegion> maps_;  // in no order
  MemorySource source_;
  std::unique_ptr<Cpu> cpu_;
  // The checkpoint: the processor's state, and the pages written since as they were then.
  std::unique_ptr<Cpu::SavedState> saved_;
  std::map<uint64_t, std::vector<uint8_t>> old_pages_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_SERVER_TARGET_SCRATCH_MACHINE_H_
