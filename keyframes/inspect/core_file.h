// Writes a process as an ELF core file, which debuggers open without Hindsight.
//
// The memory map is in it with one PT_LOAD or more for each region. Memory that is not known
// is left out: it belongs to the part of a PT_LOAD that the file does not have (p_filesz below
// p_memsz). So are regions without any access rights, as gcore does. Pages of zeros become holes. A
// note says if threads are missing (core_notes.h).

#ifndef HINDSIGHT_KEYFRAMES_INSPECT_CORE_FILE_H_
#define HINDSIGHT_KEYFRAMES_INSPECT_CORE_FILE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "keyframes/inspect/core_output.h"
#include "keyframes/inspect/process_view.h"

namespace hindsight {

struct CoreOptions {
  int32_t thread = 0;  // the current one; must be alive
  bool extended_registers = true;
  const std::atomic<bool>* interrupt = nullptr;  // polled, may be null: kCancelled
  std::function<void(uint64_t done_bytes, uint64_t total_bytes)> progress;  // may be empty
};

struct CoreSummary {
  size_t threads = 0;
  uint64_t memory_bytes = 0;   // in the file
  uint64_t unknown_bytes = 0;  // mapped with access rights, but left out
  std::string missing;         // ProcessView::Missing
};
// "2 threads, 10.2 MB of memory, 4.0 kB not known"; not what is missing.
std::string ToString(const CoreSummary& summary);

// Writes all of it and finishes `output`. Errors: those of the view but for unknown memory, those
// of `output`, kCancelled.
absl::StatusOr<CoreSummary> WriteCore(ProcessView* view, const CoreOptions& options,
                                      CoreOutput* output);

}  // namespace hindsight

#endif  // HINDSIGHT_KEYFRAMES_INSPECT_CORE_FILE_H_
