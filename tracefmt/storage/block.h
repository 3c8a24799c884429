// Blocks: the one framing of every file of a trace but the module bytes.
//
//   offset size
//        0    4  magic "HSBK"
//        4    2  kind
//        6    2  format version
//        8    4  stored bytes: length of the payload, a zstd frame
//       12    4  raw bytes: its length decompressed, a multiple of 8
//       16    8  XXH3-64 of the payload
//       24    8  XXH3-64 of bytes 0 to 23, seeded with the block's offset in its file
//       32       payload
//
// All integers are little-endian. Rationale: the header has a hash of its own so that a damaged
// length differs from a file that just ends early; the seed finds blocks that are whole but in the
// wrong place.

#ifndef HINDSIGHT_TRACEFMT_STORAGE_BLOCK_H_
#define HINDSIGHT_TRACEFMT_STORAGE_BLOCK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/unique_fd.h"
#include "tracefmt/storage/trace_directory.h"

struct ZSTD_CCtx_s;

namespace hindsight {

enum class BlockKind : uint16_t {
  kManifest = 1,
  kModules = 2,
  kSegmentHeader = 3,
  kRecords = 4,
  kEvents = 5,
  kKeyframeHeader = 6,
  kPageGroup = 7,
  kPageTable = 8,
  kKeyframeEnd = 9,
  kKeptModules = 10,
  kThinnedEvents = 11,
  kKeyframeExtent = 0x8000,
  kKernelState = 0x8001,
};

// A reader skips blocks of unknown kinds from here on and stops at unknown kinds below.
inline constexpr uint16_t kFirstIgnorableBlockKind = 0x8000;
inline constexpr uint16_t kFormatVersion = 1;
inline constexpr size_t kBlockHeaderBytes = 32;
// Bounds what a reader allocates for one block. Far above what a writer makes of its own accord
// (about 256 KiB); the largest single thing is the memory map of 65530 regions, about 8 MiB.
inline constexpr uint32_t kMaxRawBytes = 16 << 20;

struct BlockHeader {
  uint16_t kind = 0;
  uint16_t version = 0;
  uint32_t stored_bytes = 0;
  uint32_t raw_bytes = 0;
  uint64_t payload_hash = 0;
};

// A decompressed block.
struct RawBlock {
  uint16_t kind = 0;
  uint64_t offset = 0;       // in its file
  uint64_t next_offset = 0;  // of the block after it
  std::unique_ptr<uint64_t[]> words;
  size_t word_count = 0;

  bool Is(BlockKind wanted) const { return kind == static_cast<uint16_t>(wanted); }
};

// A Status that names file and offset.
absl::Status BlockError(absl::StatusCode code, const std::string& path, uint64_t offset,
                        const std::string& what);

// Compresses and frames blocks. Movable. One thread at a time.
class BlockEncoder {
 public:
  // Level 1: of the memory of a Python process with a database in it, level 3 stores 3% less and
  // takes up to twice the time. What hardly gets smaller is compressed faster.
  explicit BlockEncoder(int level = 1);
  ~BlockEncoder();
  BlockEncoder(BlockEncoder&& other) noexcept;

  // Makes the block of `raw` (a multiple of 8 bytes) for place `offset` of a file. The span holds
  // until the next call.
  absl::StatusOr<absl::Span<const uint8_t>> Encode(BlockKind kind, absl::Span<const uint8_t> raw,
                                                   uint64_t offset);
  // The same in two steps: a block without a place, which need not be the next one; and its place.
  absl::StatusOr<std::vector<uint8_t>> Compress(BlockKind kind, absl::Span<const uint8_t> raw);
  static void Place(uint64_t offset, std::vector<uint8_t>* block);

 private:
  absl::StatusOr<absl::Span<uint8_t>> CompressHere(BlockKind kind, absl::Span<const uint8_t> raw);
  int LevelFor(size_t bytes);  // of the next block

  const int level_;
  int fast_blocks_ = 0;  // so many more
  ZSTD_CCtx_s* context_;
  std::string buffer_;
};

// Changes the header of a block, of which `header` has at least that, to one for place `offset` of
// its file. The bytes of the whole block; 0 if it is no header.
uint64_t MoveBlock(absl::Span<uint8_t> header, uint64_t offset);

// A file of blocks, for reading. Any number of threads may read at once.
//
// Statuses: kOutOfRange where the file ends inside a block (a writer died there) or holds only
// zeros from `offset` on (the machine did); kInvalidArgument if it is no file of ours at all;
// kUnimplemented if its first block is of a newer version; kDataLoss for everything else that is
// wrong. Reading at size() is kOutOfRange too: ask AtEnd() first.
class BlockFile {
 public:
  static absl::StatusOr<BlockFile> Open(const TraceDirectory& files, const std::string& name);

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }  // when opened
  bool AtEnd(uint64_t offset) const { return offset >= size_; }

  absl::StatusOr<BlockHeader> ReadHeader(uint64_t offset) const;
  absl::StatusOr<RawBlock> Read(uint64_t offset) const;

 private:
  BlockFile(std::string path, UniqueFd fd, uint64_t size)
      : path_(std::move(path)), fd_(std::move(fd)), size_(size) {}
  absl::Status ReadBytes(uint64_t offset, absl::Span<uint8_t> out) const;
  bool OnlyZerosFrom(uint64_t offset) const;
  absl::Status Error(absl::StatusCode code, uint64_t offset, const std::string& what) const {
    return BlockError(code, path_, offset, what);
  }

  std::string path_;
  UniqueFd fd_;
  uint64_t size_ = 0;
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_STORAGE_BLOCK_H_
