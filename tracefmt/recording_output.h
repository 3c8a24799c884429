// What the traces of one recording share while they are written: the thread that compresses and
// writes, the bytes of modules, and some room on the disk for last words.
//
// Not copyable. The traces' writers share it. One host thread at a time, but for the queue.

#ifndef HINDSIGHT_TRACEFMT_RECORDING_OUTPUT_H_
#define HINDSIGHT_TRACEFMT_RECORDING_OUTPUT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "tracefmt/modules/stored_modules.h"
#include "tracefmt/ring/ring.h"
#include "tracefmt/ring/ring_limits.h"
#include "tracefmt/ring/trace_history.h"
#include "tracefmt/storage/block.h"
#include "tracefmt/storage/late_sync.h"
#include "tracefmt/storage/output_directory.h"
#include "tracefmt/storage/write_queue.h"

namespace hindsight {

// Raw size at which a block, of records or of events, is written without being asked to.
inline constexpr size_t kBlockBytes = 256 << 10;

class RecordingOutput {
 public:
  // `directory` is that of the recording, and of its first process's trace.
  explicit RecordingOutput(const OutputDirectory& directory, const WriterOptions& options = {},
                           const RingLimits& ring = {});
  ~RecordingOutput();
  RecordingOutput(const RecordingOutput&) = delete;
  RecordingOutput& operator=(const RecordingOutput&) = delete;

  const OutputDirectory& directory() const { return directory_; }

  // Takes room for `bytes`, for a manifest that reports a full disk. Without it that manifest may
  // not find room; nothing else depends on it.
  void Reserve(size_t bytes);
  void Release();

  WriteQueue* queue() { return &queue_; }
  // Used by jobs of the queue, or while it is drained; and by preparations, of `thread`.
  BlockEncoder* encoder() { return &encoder_; }
  BlockEncoder* encoder(size_t thread) { return &encoders_[thread]; }
  StoredModules* modules() { return &modules_; }  // any thread
  LateSync* late_sync() { return &late_sync_; }
  std::atomic<uint64_t>* bytes_written() { return &bytes_written_; }  // and still there
  Ring* ring() { return &ring_; }
  // On the queue: `history` is that of a process that has ended, and is kept until its trace is
  // removed, by which it is let go.
  void KeepEnded(std::shared_ptr<TraceHistory> history);

 private:
  const OutputDirectory directory_;
  std::atomic<uint64_t> bytes_written_ = 0;
  BlockEncoder encoder_;
  std::vector<BlockEncoder> encoders_;  // of the queue's threads
  StoredModules modules_;
  bool reserved_ = false;
  LateSync late_sync_;
  Ring ring_;
  std::vector<std::shared_ptr<TraceHistory>> ended_;
  WriteQueue queue_;  // last: it uses all of the above
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_RECORDING_OUTPUT_H_
