// make_corpus DIRECTORY: writes the corpus of replay_fuzzer.

#include <cstdio>

#include "keyframes/fuzz/toy_to_fuzz.h"
#include "tracefmt/fuzz/fuzzed_trace.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_corpus DIRECTORY\n");
    return 2;
  }
  hindsight::FuzzedTrace(hindsight::WriteToyTrace).WriteSeeds(argv[1]);
  return 0;
}
