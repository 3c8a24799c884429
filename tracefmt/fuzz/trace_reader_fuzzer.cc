// Reads traces one file of which is wild. See fuzzed_trace.h; trace_reader_fuzz_test does so for
// some seconds of every test run.
//
//   bazel run -c opt //tracefmt/fuzz:make_corpus -- DIRECTORY
//   bazel run --config=fuzz //tracefmt/fuzz:trace_reader_fuzzer -- DIRECTORY -max_total_time=60

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "base/check.h"
#include "tracefmt/fuzz/fuzzed_trace.h"
#include "tracefmt/samples/sample_trace.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {
namespace {

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
  static hindsight::FuzzedTrace sample(hindsight::WriteSampleTrace);
  sample.Change(absl::MakeConstSpan(data, size));
  hindsight::ReadEverything(sample.directory());
  sample.Restore();
  return 0;
}
