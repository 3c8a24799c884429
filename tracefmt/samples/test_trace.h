// A trace in a temporary directory, and a small language to write, spoil and read it in tests.
//
//   TestTrace trace;
//   trace.Begin(0).Add(Effect(3)).End(10);
//   trace.Finish();
//   trace.CutTo("threads/1/0.seg", 100);
//   EXPECT_EQ(trace.Read().Load(0)->end_count(), 4);

#ifndef HINDSIGHT_TRACEFMT_SAMPLES_TEST_TRACE_H_
#define HINDSIGHT_TRACEFMT_SAMPLES_TEST_TRACE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tracefmt/samples/sample_trace.h"
#include "tracefmt/trace_reader.h"
#include "tracefmt/trace_writer.h"

namespace hindsight {

inline constexpr int32_t kThread = 1;

// Bytes that live as long as the process, for the spans of records.
absl::Span<const uint8_t> Lines(int count, uint8_t fill);
std::vector<uint8_t> FilledPage(uint8_t fill);

// Records for tests, at `count`.
Record Page(uint64_t count, uint64_t address, uint64_t line_mask = 1, uint8_t fill = 7);
Record Line(uint64_t count, uint64_t address, uint8_t fill = 9);
Record Effect(uint64_t count, uint64_t sequence = 0);
Record Jump(uint64_t count, uint64_t sequence = 0);
Record StateHash(uint64_t count, uint64_t hash);

class OpenTrace {
 public:
  explicit OpenTrace(std::unique_ptr<TraceReader> reader) : reader_(std::move(reader)) {}
  const TraceReader& operator*() const { return *reader_; }
  const TraceReader* operator->() const { return reader_.get(); }
  // Fails the test, and returns nullptr, if the segment cannot be loaded.
  std::shared_ptr<const Segment> Load(uint64_t number, int32_t thread = kThread) const;
  // First byte of the page as the keyframe (by index) has it; -1 where it cannot be read.
  int FirstByte(size_t keyframe, uint64_t address) const;

 private:
  std::unique_ptr<TraceReader> reader_;
};

class TestTrace {
 public:
  TestTrace();
  ~TestTrace();

  const std::string& directory() const { return directory_; }
  std::string Path(const std::string& name) const { return directory_ + "/" + name; }
  TraceWriter* writer() { return writer_.get(); }

  // Writing. Each fails the test on error.
  TestTrace& Begin(uint64_t number, uint64_t count = 0, uint64_t sequence = 0);
  TestTrace& Add(const Record& record);
  TestTrace& End(uint64_t count);
  TestTrace& Flush();
  TestTrace& Event(const ProcessEvent& event);
  // A keyframe of pages (address, fill).
  TestTrace& Keyframe(uint64_t number, const std::vector<std::pair<uint64_t, uint8_t>>& pages);
  void Finish();
  // Ends writing without Finish, as a recorder that dies does.
  void Abandon() { writer_.reset(); }

  // Spoiling. `name` is relative to the trace.
  std::string Bytes(const std::string& name) const;
  void SetBytes(const std::string& name, const std::string& bytes) const;
  void CutTo(const std::string& name, size_t size) const;
  void Flip(const std::string& name, size_t offset) const;  // one bit
  // Offsets of the blocks of a file, and its size after them.
  std::vector<uint64_t> BlockOffsets(const std::string& name) const;

  // Reading.
  absl::StatusOr<std::unique_ptr<TraceReader>> TryRead() const {
    return TraceReader::Open(directory_);
  }
  OpenTrace Read() const;

 private:
  std::string directory_;
  std::unique_ptr<TraceWriter> writer_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_TRACEFMT_SAMPLES_TEST_TRACE_H_
