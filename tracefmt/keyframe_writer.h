// Writes one full keyframe after the other.
//
// Not copyable. Called on the recorder's thread; hands compression and writing to the queue.

#ifndef HINDSIGHT_TRACEFMT_KEYFRAME_WRITER_H_
#define HINDSIGHT_TRACEFMT_KEYFRAME_WRITER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tracefmt/kernel_state.h"
#include "tracefmt/ring/ring.h"
#include "tracefmt/storage/append_file.h"
#include "tracefmt/storage/output_directory.h"
#include "tracefmt/storage/page_index.h"
#include "tracefmt/storage/write_queue.h"
#include "tracefmt/trace_writer.h"

namespace hindsight {

// Pages in a group, the unit of compression. Reading one page decodes one group: 64 KiB, about
// 100 us. On the memory of a real program, twice the size stores 0.5% less, half of it 1.3% more.
inline constexpr uint64_t kPagesPerGroup = 16;
// Entries per block of a page table.
inline constexpr uint64_t kPagesPerTable = 8192;

// Makes the file N.head of `full`, a full keyframe like N without any page, and returns its size.
absl::StatusOr<uint64_t> WriteKeyframeHead(const OutputDirectory& full, uint64_t number,
                                           BlockEncoder* encoder,
                                           std::atomic<uint64_t>* bytes_written);

class KeyframeWriter {
 public:
  // `directory` is the trace's full/. Everything is borrowed; `pages` is touched on
  // the caller's thread only while the queue is drained or adds nothing to it.
  KeyframeWriter(const OutputDirectory& directory, std::string uuid, WriteQueue* queue,
                 BlockEncoder* encoder, PageIndex* pages, Ring* ring,
                 std::atomic<uint64_t>* bytes_written)
      : directory_(directory),
        uuid_(std::move(uuid)),
        queue_(queue),
        encoder_(encoder),
        pages_(pages),
        ring_(ring),
        bytes_written_(bytes_written) {}

  // The next one refers to none before it.
  void BeginGeneration() {
    pages_->ForgetStored();
    last_table_ = Table();
    self_contained_ = true;
  }

  // From now on none refers to these modules.
  void ForgetModules(absl::Span<const int32_t> modules);

  // See TraceWriter; Finish does not wait. kFailedPrecondition where calls come in the wrong order.
  absl::Status Begin(uint64_t number, uint64_t sequence,
                     const std::vector<TraceWriter::ThreadState>& threads,
                     const std::vector<MapRegion>& maps, absl::Span<const uint64_t> auxv);
  absl::Status AddPage(uint64_t address, absl::Span<const uint8_t> bytes);
  absl::Status AddReference(uint64_t address, const PageSource& source);
  void KeepPageTable() { keeps_table_ = true; }
  bool HadPage(uint64_t address);
  absl::Status AddUnchangedPage(uint64_t address);
  absl::Status DeclareComplete(const std::vector<std::pair<uint64_t, uint64_t>>& unseen);
  absl::Status AddKernelState(const KernelState& state);
  absl::Status Finish();
  // How many were finished; they are numbered from 1.
  uint64_t finished() const { return last_number_; }
  // Of the file of the last one. Requires: the queue has been drained since.
  uint64_t last_bytes() const { return last_bytes_; }

 private:
  // What is being written; shared with the jobs on the queue.
  struct Open {
    Open(const OutputDirectory& full, uint64_t n)
        : directory(full), number(n), name(absl::StrCat(n)), next(name + ".tmp") {}
    // A full disk can do without half a keyframe.
    ~Open();

    const OutputDirectory directory;
    const uint64_t number;
    const std::string name, next;
    std::unique_ptr<AppendFile> file;  // made by the first job
    bool finished = false;
  };
  struct Table {
    std::vector<uint64_t> addresses;
    std::vector<uint8_t> sources;
    std::vector<uint32_t> owners;
    std::vector<uint64_t> positions;
  };

  absl::Status PostGroup();
  absl::Status PostTables();

  const OutputDirectory directory_;
  std::string uuid_;
  WriteQueue* queue_;
  BlockEncoder* encoder_;
  PageIndex* pages_;
  Ring* ring_;
  std::atomic<uint64_t>* bytes_written_;

  uint64_t last_number_ = 0;
  uint64_t last_bytes_ = 0;
  bool self_contained_ = false;
  std::shared_ptr<Open> open_;  // null between keyframes
  std::vector<uint8_t> group_;  // stored pages not posted yet
  uint64_t stored_pages_ = 0;
  Table table_;
  bool keeps_table_ = false;
  Table last_table_;       // of the last one finished, if it is kept
  size_t last_place_ = 0;  // where in it the last page asked for is, or would be
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_KEYFRAME_WRITER_H_
