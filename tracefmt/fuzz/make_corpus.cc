// make_corpus DIRECTORY: writes the corpus of trace_reader_fuzzer.

#include <cstdio>

#include "tracefmt/fuzz/fuzzed_trace.h"
#include "tracefmt/samples/sample_trace.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_corpus DIRECTORY\n");
    return 2;
  }
  hindsight::FuzzedTrace(hindsight::WriteSampleTrace).WriteSeeds(argv[1]);
  return 0;
}
