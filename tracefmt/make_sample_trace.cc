// make_sample_trace DIRECTORY: writes the sample trace there and its description to stdout. Makes
// testdata/golden-v1 when the format changes.

#include <cstdio>

#include "base/check.h"
#include "tracefmt/sample_trace.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_sample_trace DIRECTORY\n");
    return 2;
  }
  hindsight::WriteSampleTrace(argv[1]);
  const auto trace = hindsight::TraceReader::Open(argv[1]);
  CHECK(trace.ok());
  std::fputs(hindsight::Describe(**trace).c_str(), stdout);
  return 0;
}
