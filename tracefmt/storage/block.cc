#include "tracefmt/storage/block.h"

#include <sys/stat.h>
#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace hindsight {
namespace {

constexpr uint8_t kMagic[4] = {'H', 'S', 'B', 'K'};
constexpr size_t kHashedHeaderBytes = 24;

// Of floating-point numbers and the like the usual level saves less than a tenth, nearly all of it
// by the entropy coder, which takes most of the time. The level that does without it, and how many
// blocks are compressed so before it is tried again. Of less than that many bytes nothing is
// concluded.
constexpr int kFastLevel = -1;
constexpr int kFastBlocks = 8;
constexpr size_t kTellingBytes = 64 * 1024;
constexpr bool SavesLittle(size_t raw, size_t stored) { return stored > raw / 10 * 9; }

template <typename T>
void Store(uint8_t* at, T value) {
  std::memcpy(at, &value, sizeof(value));
}

template <typename T>
T Load(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

void SetPlace(uint64_t offset, uint8_t* header) {
  Store<uint64_t>(header + 24, XXH3_64bits_withSeed(header, kHashedHeaderBytes, offset));
}

}  // namespace

absl::Status BlockError(absl::StatusCode code, const std::string& path, uint64_t offset,
                        const std::string& what) {
  return absl::Status(code, absl::StrCat(path, ": offset ", offset, ": ", what));
}

BlockEncoder::BlockEncoder(int level) : level_(level), context_(ZSTD_createCCtx()) {
  CHECK(context_ != nullptr);
}

BlockEncoder::~BlockEncoder() { ZSTD_freeCCtx(context_); }

BlockEncoder::BlockEncoder(BlockEncoder&& other) noexcept
    : level_(other.level_),
      fast_blocks_(other.fast_blocks_),
      context_(std::exchange(other.context_, nullptr)),
      buffer_(std::move(other.buffer_)) {}

int BlockEncoder::LevelFor(size_t bytes) {
  if (fast_blocks_ == 0 || bytes < kTellingBytes) return level_;
  --fast_blocks_;
  return kFastLevel;
}

absl::StatusOr<absl::Span<uint8_t>> BlockEncoder::CompressHere(BlockKind kind,
                                                               absl::Span<const uint8_t> raw) {
  CHECK(raw.size() % sizeof(uint64_t) == 0);
  if (raw.size() > kMaxRawBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a block of ", raw.size(), " bytes is more than a trace can hold"));
  }
  const size_t bound = kBlockHeaderBytes + ZSTD_compressBound(raw.size());
  if (buffer_.size() < bound) buffer_.resize(bound);
  uint8_t* header = reinterpret_cast<uint8_t*>(buffer_.data());
  uint8_t* payload = header + kBlockHeaderBytes;
  const int level = LevelFor(raw.size());
  CHECK(!ZSTD_isError(ZSTD_CCtx_setParameter(context_, ZSTD_c_compressionLevel, level)));
  const size_t stored =
      ZSTD_compress2(context_, payload, buffer_.size() - kBlockHeaderBytes, raw.data(), raw.size());
  if (ZSTD_isError(stored)) {
    return absl::InternalError(absl::StrCat("zstd: ", ZSTD_getErrorName(stored)));
  }
  if (level == level_ && raw.size() >= kTellingBytes && SavesLittle(raw.size(), stored)) {
    fast_blocks_ = kFastBlocks;
  }
  std::memcpy(header, kMagic, sizeof(kMagic));
  Store<uint16_t>(header + 4, static_cast<uint16_t>(kind));
  Store<uint16_t>(header + 6, kFormatVersion);
  Store<uint32_t>(header + 8, static_cast<uint32_t>(stored));
  Store<uint32_t>(header + 12, static_cast<uint32_t>(raw.size()));
  Store<uint64_t>(header + 16, XXH3_64bits(payload, stored));
  return absl::MakeSpan(header, kBlockHeaderBytes + stored);
}

absl::StatusOr<absl::Span<const uint8_t>> BlockEncoder::Encode(BlockKind kind,
                                                               absl::Span<const uint8_t> raw,
                                                               uint64_t offset) {
  ASSIGN_OR_RETURN(const absl::Span<uint8_t> block, CompressHere(kind, raw));
  SetPlace(offset, block.data());
  return block;
}

absl::StatusOr<std::vector<uint8_t>> BlockEncoder::Compress(BlockKind kind,
                                                            absl::Span<const uint8_t> raw) {
  ASSIGN_OR_RETURN(const absl::Span<uint8_t> block, CompressHere(kind, raw));
  return std::vector<uint8_t>(block.begin(), block.end());
}

void BlockEncoder::Place(uint64_t offset, std::vector<uint8_t>* block) {
  CHECK(block->size() >= kBlockHeaderBytes);
  SetPlace(offset, block->data());
}

uint64_t MoveBlock(absl::Span<uint8_t> header, uint64_t offset) {
  if (header.size() < kBlockHeaderBytes ||
      std::memcmp(header.data(), kMagic, sizeof(kMagic)) != 0) {
    return 0;
  }
  Store<uint64_t>(header.data() + 24,
                  XXH3_64bits_withSeed(header.data(), kHashedHeaderBytes, offset));
  return kBlockHeaderBytes + uint64_t{Load<uint32_t>(header.data() + 8)};
}

absl::StatusOr<BlockFile> BlockFile::Open(const TraceDirectory& files, const std::string& name) {
  const std::string path = files.PathOf(name);
  ASSIGN_OR_RETURN(UniqueFd fd, files.OpenFile(name));
  struct stat status;
  if (fstat(fd.get(), &status) != 0) return absl::ErrnoToStatus(errno, path);
  if (!S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
  }
  return BlockFile(path, std::move(fd), static_cast<uint64_t>(status.st_size));
}

absl::Status BlockFile::ReadBytes(uint64_t offset, absl::Span<uint8_t> out) const {
  while (!out.empty()) {
    const ssize_t got = pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return absl::ErrnoToStatus(errno, absl::StrCat(path_, ": offset ", offset));
    }
    if (got == 0) {
      return Error(absl::StatusCode::kOutOfRange, offset, "the file ends inside a block");
    }
    out.remove_prefix(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
  return absl::OkStatus();
}

bool BlockFile::OnlyZerosFrom(uint64_t offset) const {
  std::vector<uint8_t> buffer(64 << 10);
  while (offset < size_) {
    const size_t length = std::min<uint64_t>(buffer.size(), size_ - offset);
    if (!ReadBytes(offset, absl::MakeSpan(buffer).first(length)).ok()) return false;
    if (std::any_of(buffer.begin(), buffer.begin() + length, [](uint8_t b) { return b != 0; })) {
      return false;
    }
    offset += length;
  }
  return true;
}

absl::StatusOr<BlockHeader> BlockFile::ReadHeader(uint64_t offset) const {
  using absl::StatusCode;
  if (offset > size_ || size_ - offset < kBlockHeaderBytes) {
    return Error(StatusCode::kOutOfRange, offset, "the file ends inside a block header");
  }
  uint8_t bytes[kBlockHeaderBytes];
  RETURN_IF_ERROR(ReadBytes(offset, absl::MakeSpan(bytes)));
  BlockHeader header;
  header.kind = Load<uint16_t>(bytes + 4);
  header.version = Load<uint16_t>(bytes + 6);
  header.stored_bytes = Load<uint32_t>(bytes + 8);
  header.raw_bytes = Load<uint32_t>(bytes + 12);
  header.payload_hash = Load<uint64_t>(bytes + 16);
  const bool ours = std::memcmp(bytes, kMagic, sizeof(kMagic)) == 0;
  // Only the first block speaks of versions, before its hash: a newer version may hash otherwise.
  // Behind it a version that differs is damage.
  if (ours && offset == 0 && header.version > kFormatVersion) {
    return Error(StatusCode::kUnimplemented, offset,
                 absl::StrCat("written by a newer version of Hindsight (format ", header.version,
                              "; this one reads up to ", kFormatVersion, ")"));
  }
  const bool intact =
      ours && header.version != 0 && header.version <= kFormatVersion &&
      XXH3_64bits_withSeed(bytes, kHashedHeaderBytes, offset) == Load<uint64_t>(bytes + 24);
  if (!intact) {
    if (OnlyZerosFrom(offset)) {
      return Error(StatusCode::kOutOfRange, offset, "the file ends in zeros");
    }
    if (!ours && offset == 0) {
      return Error(StatusCode::kInvalidArgument, offset, "not a file of a Hindsight trace");
    }
    return Error(StatusCode::kDataLoss, offset, "damaged block header");
  }
  if (header.raw_bytes > kMaxRawBytes || header.raw_bytes % sizeof(uint64_t) != 0) {
    return Error(StatusCode::kDataLoss, offset, "impossible block size");
  }
  if (header.stored_bytes > size_ - offset - kBlockHeaderBytes) {
    return Error(StatusCode::kOutOfRange, offset, "the file ends inside a block");
  }
  return header;
}

absl::StatusOr<RawBlock> BlockFile::Read(uint64_t offset) const {
  using absl::StatusCode;
  ASSIGN_OR_RETURN(const BlockHeader header, ReadHeader(offset));
  std::vector<uint8_t> payload(header.stored_bytes);
  RETURN_IF_ERROR(ReadBytes(offset + kBlockHeaderBytes, absl::MakeSpan(payload)));
  if (XXH3_64bits(payload.data(), payload.size()) != header.payload_hash) {
    return Error(StatusCode::kDataLoss, offset, "checksum mismatch");
  }
  if (ZSTD_getFrameContentSize(payload.data(), payload.size()) != header.raw_bytes) {
    return Error(StatusCode::kDataLoss, offset, "not the size the block header says");
  }
  RawBlock block;
  block.kind = header.kind;
  block.offset = offset;
  block.next_offset = offset + kBlockHeaderBytes + header.stored_bytes;
  block.word_count = header.raw_bytes / sizeof(uint64_t);
  block.words.reset(new uint64_t[block.word_count]);
  const size_t raw =
      ZSTD_decompress(block.words.get(), header.raw_bytes, payload.data(), payload.size());
  if (ZSTD_isError(raw) || raw != header.raw_bytes) {
    return Error(StatusCode::kDataLoss, offset, "does not decompress");
  }
  return block;
}

}  // namespace hindsight
