// The manifest's file.

#ifndef HINDSIGHT_TRACEFMT_MANIFEST_CODEC_H_
#define HINDSIGHT_TRACEFMT_MANIFEST_CODEC_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tracefmt/block.h"
#include "tracefmt/manifest.h"

namespace hindsight {

inline constexpr size_t kUuidBytes = 16;

// Replaces the file at `path` in one step: readers see the old manifest or the new one.
absl::Status WriteManifest(const std::string& path, const Manifest& manifest, BlockEncoder* encoder,
                           std::atomic<uint64_t>* bytes_written);
absl::StatusOr<Manifest> ReadManifest(const std::string& path);
// The manifest of the trace in `directory`; its state is kInterrupted where that is so.
absl::StatusOr<Manifest> ReadTraceManifest(const std::string& directory);

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_MANIFEST_CODEC_H_
