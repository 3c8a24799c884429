// What a system call may have stored in pages that are not in use: imports it, or leaves it.
//
//   effects say          pages of the segment        other pages
//   written              imported                    imported (left if it is bulk or uncached)
//   perhaps_written      imported                    -
//   unfilled             as written, where the buffer ends in memory that cannot be written
//   remapped             imported                    -
//   discarded            left                        -
//   writes_files         those of files imported     -
//   not known            all imported, or left if they are many
//
// Borrows pages, importer and Cpu. Not copyable. One host thread.

#ifndef HINDSIGHT_RECORDER_EMULATE_PAGER_OUTPUT_IMPORTER_H_
#define HINDSIGHT_RECORDER_EMULATE_PAGER_OUTPUT_IMPORTER_H_

#include <cstdint>

#include "absl/types/span.h"
#include "emulator/cpu/cpu.h"
#include "recorder/emulate/pager/known_pages.h"
#include "recorder/emulate/pager/page_importer.h"
#include "recorder/process/address_space.h"
#include "recorder/syscalls/syscall_outputs.h"

namespace hindsight {

class OutputImporter {
 public:
  OutputImporter(KnownPages* pages, PageImporter* importer) : pages_(pages), importer_(importer) {}
  OutputImporter(const OutputImporter&) = delete;
  OutputImporter& operator=(const OutputImporter&) = delete;

  void set_cpu(Cpu* cpu) { cpu_ = cpu; }
  // System calls that store more than this in one place: what they store is imported only where the
  // thread uses it. 0: all is.
  void set_bulk_bytes(uint64_t bytes) { bulk_bytes_ = bytes; }
  // Memory may be written at any time by others than threads of the process.
  void set_written_elsewhere(bool written) { written_elsewhere_ = written; }
  bool written_elsewhere() const { return written_elsewhere_; }

  void Take(const AddressSpace& space, const SyscallOutputs& effects);
  // Anything may have been stored anywhere.
  void TakeUnknown(const AddressSpace& space);

  // The page, with its place in the view; `host` is null above all user memory.
  KnownPage* Lookup(uint64_t address);

 private:
  void TakeWritten(const AddressSpace& space, const MemoryRange& range);
  void TakeUnfilled(const AddressSpace& space, absl::Span<const MemoryRange> ranges);
  void TakeDiscarded(absl::Span<const MemoryRange> ranges);
  void TakePages(const AddressSpace& space, const MapRegion& region, uint64_t first, uint64_t end,
                 bool bulk);

  KnownPages* const pages_;
  PageImporter* const importer_;
  Cpu* cpu_ = nullptr;
  uint64_t bulk_bytes_ = 0;
  bool written_elsewhere_ = false;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_EMULATE_PAGER_OUTPUT_IMPORTER_H_
