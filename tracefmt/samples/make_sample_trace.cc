// make_sample_trace DIRECTORY: writes the sample recording there and its description to stdout.
// Makes another testdata/golden-* when the format is extended.

#include <cstdio>

#include "base/check.h"
#include "tracefmt/samples/sample_trace.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_sample_trace DIRECTORY\n");
    return 2;
  }
  hindsight::WriteSampleTrace(argv[1]);
  std::fputs(hindsight::DescribeRecording(argv[1]).c_str(), stdout);
  return 0;
}
