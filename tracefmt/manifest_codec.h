// The manifest's file.

#ifndef HINDSIGHT_TRACEFMT_MANIFEST_CODEC_H_
#define HINDSIGHT_TRACEFMT_MANIFEST_CODEC_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tracefmt/manifest.h"
#include "tracefmt/storage/block.h"
#include "tracefmt/storage/late_sync.h"
#include "tracefmt/storage/output_directory.h"
#include "tracefmt/storage/read_budget.h"
#include "tracefmt/storage/trace_directory.h"

namespace hindsight {

inline constexpr size_t kUuidBytes = 16;

// Replaces the file `manifest` of `trace` in one step: readers see the old manifest or the new one.
// It is on the disk before that, or soon after with `late`.
absl::Status WriteManifest(const OutputDirectory& trace, const Manifest& manifest,
                           BlockEncoder* encoder, LateSync* late,
                           std::atomic<uint64_t>* bytes_written);
// The manifest of the trace in `files`; its state is kInterrupted where that is so.
// kResourceExhausted if it takes more memory than the budget has.
absl::StatusOr<Manifest> ReadTraceManifest(const TraceDirectory& files, ReadBudget* budget);

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_MANIFEST_CODEC_H_
