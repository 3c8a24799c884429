// Reads traces one file of which is wild. See fuzz_input.h.
//
//   bazel run -c opt //tracefmt/fuzz:make_corpus -- DIRECTORY
//   bazel run --config=fuzz //tracefmt/fuzz:trace_reader_fuzzer -- DIRECTORY -max_total_time=60

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/check.h"
#include "tracefmt/block.h"
#include "tracefmt/fuzz/fuzz_input.h"
#include "tracefmt/sample_trace.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {
namespace {

// The sample trace, in memory where there is such a file system.
class Sample {
 public:
  Sample()
      : directory_(access("/dev/shm", W_OK) == 0 ? "/dev/shm/fuzz.XXXXXX" : "/tmp/fuzz.XXXXXX") {
    CHECK(mkdtemp(directory_.data()) != nullptr);
    WriteSampleTrace(directory_);
    for (const char* name : kFuzzedFiles) {
      std::ifstream file(Path(name), std::ios::binary);
      originals_.emplace_back(std::istreambuf_iterator<char>(file),
                              std::istreambuf_iterator<char>());
    }
  }
  ~Sample() { std::filesystem::remove_all(directory_); }

  const std::string& directory() const { return directory_; }
  void Replace(size_t file, const std::string& bytes) const {
    std::ofstream(Path(kFuzzedFiles[file]), std::ios::binary | std::ios::trunc) << bytes;
  }
  void Restore(size_t file) const { Replace(file, originals_[file]); }

 private:
  std::string Path(const std::string& name) const { return directory_ + "/" + name; }

  std::string directory_;
  std::vector<std::string> originals_;
};

std::string FrameMessages(absl::Span<const uint8_t> input) {
  BlockEncoder encoder;
  std::string file;
  while (input.size() >= 4) {
    const uint16_t kind = static_cast<uint16_t>((input[0] & 0x7f) | (input[0] & 0x80) << 8);
    const size_t size =
        std::min<size_t>(input[1] | input[2] << 8 | input[3] << 16, input.size() - 4);
    std::vector<uint8_t> message(input.begin() + 4, input.begin() + 4 + size);
    message.resize((size + 7) / 8 * 8);
    const auto block = encoder.Encode(static_cast<BlockKind>(kind), message, file.size());
    CHECK(block.ok());
    file.append(block->begin(), block->end());
    input.remove_prefix(4 + size);
  }
  return file;
}

// DescribeRecording reads everything there is. Statuses of damage must name the file.
void ReadEverything(const std::string& directory) {
  const auto trace = TraceReader::Open(directory);
  if (!trace.ok()) {
    CHECK(trace.status().message().find(directory) != absl::string_view::npos);
    return;
  }
  CHECK(!DescribeRecording(directory).empty());
  CHECK(!DescribeRecording(directory + "/processes/4800").empty());
}

}  // namespace
}  // namespace hindsight

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const hindsight::Sample sample;
  if (size < 2) return 0;
  const size_t file = data[0] % hindsight::kFuzzedFileCount;
  const absl::Span<const uint8_t> rest(data + 2, size - 2);
  sample.Replace(file, (data[1] & 1) != 0 ? hindsight::FrameMessages(rest)
                                          : std::string(rest.begin(), rest.end()));
  hindsight::ReadEverything(sample.directory());
  sample.Restore(file);
  return 0;
}
