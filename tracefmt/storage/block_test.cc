// The framing of blocks, against hashes and frames made here, byte by byte.

#include "tracefmt/storage/block.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <xxhash.h>
#include <zstd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tracefmt/samples/test_trace.h"
#include "tracefmt/storage/trace_directory.h"

namespace hindsight {
namespace {

using absl::StatusCode;

constexpr uint16_t kKind = static_cast<uint16_t>(BlockKind::kKeyframeEnd);

template <typename T>
void Put(T value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::string Compressed(const std::string& raw) {
  std::string frame(ZSTD_compressBound(raw.size()), '\0');
  frame.resize(ZSTD_compress(frame.data(), frame.size(), raw.data(), raw.size(), 1));
  return frame;
}

// A block for offset `seed`, its hashes right, that says it holds `raw_bytes`.
std::string Frame(const std::string& raw, uint64_t seed, uint32_t raw_bytes) {
  const std::string payload = Compressed(raw);
  std::string block = "HSBK";
  Put(kKind, &block);
  Put(kFormatVersion, &block);
  Put(static_cast<uint32_t>(payload.size()), &block);
  Put(raw_bytes, &block);
  Put(uint64_t{XXH3_64bits(payload.data(), payload.size())}, &block);
  Put(uint64_t{XXH3_64bits_withSeed(block.data(), block.size(), seed)}, &block);
  return block + payload;
}

class BlockTest : public testing::Test {
 protected:
  // What reading the block at `offset` of a file of these bytes gives.
  absl::StatusOr<RawBlock> Read(const std::string& bytes, uint64_t offset) {
    trace_.SetBytes("events", bytes);
    const auto file = OpenFile();
    EXPECT_TRUE(file.ok()) << file.status();
    return file->Read(offset);
  }

  absl::StatusOr<BlockFile> OpenFile() {
    return BlockFile::Open(*TraceDirectory::Open(trace_.directory()), "events");
  }

  TestTrace trace_;
};

TEST_F(BlockTest, IsReadWhereItBelongs) {
  const std::string raw = "sixteen bytes!!!";
  const std::string first = Frame(raw, 0, 16);
  const auto block = Read(first + Frame(raw, first.size(), 16), first.size());
  ASSERT_TRUE(block.ok()) << block.status();
  EXPECT_EQ(block->kind, kKind);
  EXPECT_EQ(block->word_count, 2);
  EXPECT_EQ(std::memcmp(block->words.get(), raw.data(), 16), 0);
}

// What the writer writes has the seed, too: it is the block's offset and nothing else.
TEST_F(BlockTest, TheWritersSeedIsTheOffset) {
  const std::string raw = "sixteen bytes!!!";
  const auto bytes = absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(raw.data()), raw.size());
  BlockEncoder encoder;
  for (const uint64_t offset : {uint64_t{0}, uint64_t{0x66}, uint64_t{1} << 40}) {
    const auto block = encoder.Encode(BlockKind::kKeyframeEnd, bytes, offset);
    ASSERT_TRUE(block.ok());
    uint64_t hash = 0;
    std::memcpy(&hash, block->data() + 24, sizeof(hash));
    EXPECT_EQ(hash, XXH3_64bits_withSeed(block->data(), 24, offset)) << offset;
  }
}

// Bytes that no compressor can make smaller (a generator's), or text.
std::vector<uint8_t> Bytes(bool random, size_t size) {
  std::vector<uint8_t> bytes(size);
  uint64_t state = 1;
  for (size_t i = 0; i < size; ++i) {
    state = state * 6364136223846793005 + 1442695040888963407;
    bytes[i] = random ? static_cast<uint8_t>(state >> 56) : "etaoin shrdlu"[state >> 33 & 7];
  }
  return bytes;
}

size_t SizeOf(bool random, size_t size, BlockEncoder* encoder) {
  const auto block = encoder->Encode(BlockKind::kKeyframeEnd, Bytes(random, size), 0);
  EXPECT_TRUE(block.ok()) << block.status();
  return block.ok() ? block->size() : 0;
}

TEST_F(BlockTest, AfterWhatHardlyGetsSmallerALittleIsCompressedFaster) {
  constexpr size_t kLarge = 256 * 1024, kSmall = 1024;
  BlockEncoder encoder;
  const size_t usual = SizeOf(false, kLarge, &encoder);
  EXPECT_LT(usual, kLarge / 2);
  SizeOf(true, kLarge, &encoder);
  EXPECT_GT(SizeOf(false, kLarge, &encoder), usual);
  // Small ones stay as they are, and nothing is concluded from them.
  SizeOf(true, kSmall, &encoder);
  for (int i = 0; i < 8; ++i) SizeOf(false, kLarge, &encoder);
  EXPECT_EQ(SizeOf(false, kLarge, &encoder), usual);
  SizeOf(true, kSmall, &encoder);
  EXPECT_EQ(SizeOf(false, kLarge, &encoder), usual);
}

TEST_F(BlockTest, WhatIsCompressedFasterIsReadAsWell) {
  BlockEncoder encoder;
  std::string file;
  for (const bool random : {true, true, false}) {
    const std::vector<uint8_t> raw = Bytes(random, 256 * 1024);
    const auto block = encoder.Encode(BlockKind::kKeyframeEnd, raw, file.size());
    ASSERT_TRUE(block.ok()) << block.status();
    const size_t offset = file.size();
    file.append(block->begin(), block->end());
    const auto read = Read(file, offset);
    ASSERT_TRUE(read.ok()) << read.status();
    ASSERT_EQ(read->word_count, raw.size() / sizeof(uint64_t));
    EXPECT_EQ(std::memcmp(read->words.get(), raw.data(), raw.size()), 0);
  }
}

TEST_F(BlockTest, AWholeBlockInAnotherPlaceIsDamage) {
  const std::string raw = "sixteen bytes!!!";
  const std::string first = Frame(raw, 0, 16);
  const std::string second = Frame(raw, first.size(), 16);
  EXPECT_EQ(Read(first + first, first.size()).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(Read(first + first + second, 2 * first.size()).status().code(), StatusCode::kDataLoss);
  EXPECT_FALSE(Read(second, 0).ok());
}

TEST_F(BlockTest, ARawLengthThatIsNoMultipleOf8IsDamage) {
  for (const size_t size : {1, 4, 12, 15, 17}) {
    const std::string raw(size, 'x');
    EXPECT_EQ(Read(Frame(raw, 0, static_cast<uint32_t>(size)), 0).status().code(),
              StatusCode::kDataLoss)
        << size;
  }
}

TEST_F(BlockTest, ARawLengthThatIsNotThePayloadsIsDamage) {
  const std::string raw(64, 'x');
  for (const uint32_t size : {0u, 8u, 56u, 72u, kMaxRawBytes, ~7u}) {
    EXPECT_EQ(Read(Frame(raw, 0, size), 0).status().code(), StatusCode::kDataLoss) << size;
  }
}

// zstd frames may follow one another, and the first alone says how much it holds.
TEST_F(BlockTest, ASecondFrameBehindThePayloadIsDamage) {
  const std::string raw(64, 'x');
  const std::string two = Compressed(raw) + Compressed(raw);
  std::string block = Frame(raw, 0, 64).substr(0, kBlockHeaderBytes) + two;
  const uint32_t stored = static_cast<uint32_t>(two.size());
  std::memcpy(block.data() + 8, &stored, sizeof(stored));
  const uint64_t payload_hash = XXH3_64bits(two.data(), two.size());
  std::memcpy(block.data() + 16, &payload_hash, sizeof(payload_hash));
  const uint64_t header_hash = XXH3_64bits_withSeed(block.data(), 24, 0);
  std::memcpy(block.data() + 24, &header_hash, sizeof(header_hash));
  EXPECT_EQ(Read(block, 0).status().code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace hindsight
