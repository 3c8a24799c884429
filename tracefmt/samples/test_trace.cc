#include "tracefmt/samples/test_trace.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <bit>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "tracefmt/storage/block.h"

namespace hindsight {

absl::Span<const uint8_t> Lines(int count, uint8_t fill) {
  static std::deque<std::vector<uint8_t>> kept;
  kept.emplace_back(static_cast<size_t>(count) * kLineBytes, fill);
  return kept.back();
}

std::vector<uint8_t> FilledPage(uint8_t fill) { return std::vector<uint8_t>(kPageBytes, fill); }

Record Page(uint64_t count, uint64_t address, uint64_t line_mask, uint8_t fill) {
  PageImport page;
  page.address = address;
  page.first = true;
  page.line_mask = line_mask;
  page.lines = Lines(std::popcount(line_mask), fill);
  return {count, page};
}

Record Line(uint64_t count, uint64_t address, uint8_t fill) {
  return {count, LineImport{address, false, Lines(1, fill)}};
}

Record Effect(uint64_t count, uint64_t sequence) {
  SideEffect effect;
  effect.sequence = sequence;
  effect.register_hash = count * 77 + 1;
  effect.registers = {{0, 2}, {count, count + 2}};
  return {count, effect};
}

Record Jump(uint64_t count, uint64_t sequence) {
  Discontinuity jump;
  jump.sequence = sequence;
  jump.signal = 11;
  jump.siginfo = std::string(128, 's');
  jump.registers = {{1}, {count}};
  return {count, jump};
}

Record StateHash(uint64_t count, uint64_t hash) { return {count, RegisterHash{hash}}; }

std::shared_ptr<const Segment> OpenTrace::Load(uint64_t number, int32_t thread) const {
  auto segment = reader_->LoadSegment(thread, number);
  EXPECT_TRUE(segment.ok()) << segment.status();
  return segment.ok() ? *std::move(segment) : nullptr;
}

int OpenTrace::FirstByte(size_t keyframe, uint64_t address) const {
  uint8_t page[kPageBytes];
  const absl::Status status =
      reader_->full_keyframes()[keyframe]->ReadPage(address, absl::MakeSpan(page));
  return status.ok() ? page[0] : -1;
}

TestTrace::TestTrace() {
  const char* parent = getenv("TEST_TMPDIR");
  std::string pattern = std::string(parent == nullptr ? "/tmp" : parent) + "/trace.XXXXXX";
  CHECK(mkdtemp(pattern.data()) != nullptr);
  directory_ = pattern;
  auto writer = TraceWriter::Create(directory_, SampleManifest());
  EXPECT_TRUE(writer.ok()) << writer.status();
  writer_ = *std::move(writer);
}

TestTrace::~TestTrace() {
  writer_.reset();
  std::filesystem::remove_all(directory_);
}

TestTrace& TestTrace::Begin(uint64_t number, uint64_t count, uint64_t sequence) {
  const absl::Status status =
      writer_->BeginSegment(kThread, number, count, sequence, SampleRegisters(count));
  EXPECT_TRUE(status.ok()) << status;
  return *this;
}

TestTrace& TestTrace::Add(const Record& record) {
  const absl::Status status = writer_->Append(kThread, record);
  EXPECT_TRUE(status.ok()) << status;
  return *this;
}

TestTrace& TestTrace::End(uint64_t count) {
  return Add({count, SegmentEnd{SampleRegisters(count)}});
}

TestTrace& TestTrace::Flush() {
  const absl::Status status = writer_->Flush();
  EXPECT_TRUE(status.ok()) << status;
  return *this;
}

TestTrace& TestTrace::Event(const ProcessEvent& event) {
  const absl::Status status = writer_->AppendEvent(event);
  EXPECT_TRUE(status.ok()) << status;
  return *this;
}

TestTrace& TestTrace::Keyframe(uint64_t number,
                               const std::vector<std::pair<uint64_t, uint8_t>>& pages) {
  const std::vector<TraceWriter::ThreadState> threads = {{kThread, 5, 0, SampleRegisters(5)}};
  absl::Status status = writer_->BeginFullKeyframe(number, 3, threads, {}, {});
  for (const auto& [address, fill] : pages) {
    status.Update(writer_->AddPage(address, FilledPage(fill)));
  }
  status.Update(writer_->FinishFullKeyframe());
  EXPECT_TRUE(status.ok()) << status;
  return *this;
}

void TestTrace::Finish() {
  Manifest manifest = SampleManifest();
  manifest.state = TraceState::kComplete;
  manifest.exit_status = 256;
  manifest.end_sequence = 99;
  manifest.end_time_ns = 1000;
  const absl::Status status = writer_->Finish(manifest);
  EXPECT_TRUE(status.ok()) << status;
  writer_.reset();
}

std::string TestTrace::Bytes(const std::string& name) const {
  std::ifstream file(Path(name), std::ios::binary);
  EXPECT_TRUE(file.good()) << name;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void TestTrace::SetBytes(const std::string& name, const std::string& bytes) const {
  std::ofstream file(Path(name), std::ios::binary | std::ios::trunc);
  file << bytes;
  EXPECT_TRUE(file.good()) << name;
}

void TestTrace::CutTo(const std::string& name, size_t size) const {
  std::filesystem::resize_file(Path(name), size);
}

void TestTrace::Flip(const std::string& name, size_t offset) const {
  std::string bytes = Bytes(name);
  bytes.at(offset) ^= 0x10;
  SetBytes(name, bytes);
}

std::vector<uint64_t> TestTrace::BlockOffsets(const std::string& name) const {
  const auto file = BlockFile::Open(*TraceDirectory::Open(directory_), name);
  EXPECT_TRUE(file.ok()) << file.status();
  std::vector<uint64_t> offsets;
  uint64_t offset = 0;
  while (!file->AtEnd(offset)) {
    offsets.push_back(offset);
    const auto header = file->ReadHeader(offset);
    EXPECT_TRUE(header.ok()) << header.status();
    if (!header.ok()) break;
    offset += kBlockHeaderBytes + header->stored_bytes;
  }
  offsets.push_back(offset);
  return offsets;
}

OpenTrace TestTrace::Read() const {
  auto reader = TryRead();
  EXPECT_TRUE(reader.ok()) << reader.status();
  CHECK(reader.ok());
  return OpenTrace(*std::move(reader));
}

}  // namespace hindsight
