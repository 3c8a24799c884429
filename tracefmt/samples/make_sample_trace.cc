// make_sample_trace KIND DIRECTORY: writes a sample recording there and its description to stdout.
// KIND: all (something of everything), ring or ring-by-thread. Makes another testdata/golden-* when
// the format is extended.

#include <cstdio>
#include <string>

#include "absl/strings/string_view.h"
#include "base/check.h"
#include "tracefmt/samples/sample_ring.h"
#include "tracefmt/samples/sample_trace.h"
#include "tracefmt/trace_reader.h"

namespace hindsight {
namespace {

std::string Ring(void (*write)(const std::string&), const std::string& directory) {
  write(directory);
  const auto trace = TraceReader::Open(directory);
  CHECK(trace.ok());
  return DescribeRing(**trace);
}

// Empty: no such kind.
std::string Make(absl::string_view kind, const std::string& directory) {
  if (kind == "ring") return Ring(&WriteSampleRing, directory);
  if (kind == "ring-by-thread") return Ring(&WriteSampleRingByThread, directory);
  if (kind != "all") return "";
  WriteSampleTrace(directory);
  return DescribeRecording(directory);
}

}  // namespace
}  // namespace hindsight

int main(int argc, char** argv) {
  const std::string text = argc == 3 ? hindsight::Make(argv[1], argv[2]) : "";
  if (text.empty()) {
    std::fprintf(stderr, "usage: make_sample_trace all|ring|ring-by-thread DIRECTORY\n");
    return 2;
  }
  std::fputs(text.c_str(), stdout);
  return 0;
}
