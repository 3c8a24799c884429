// make_corpus DIRECTORY: writes seeds for trace_reader_fuzzer, two of each file of the sample
// trace: as it is, and as messages.

#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "tracefmt/block.h"
#include "tracefmt/fuzz/fuzz_input.h"
#include "tracefmt/sample_trace.h"

namespace hindsight {
namespace {

std::string Raw(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::string Messages(const std::string& trace, const std::string& name) {
  const auto file = BlockFile::Open(*TraceDirectory::Open(trace), name);
  CHECK(file.ok());
  std::string messages;
  uint64_t offset = 0;
  while (!file->AtEnd(offset)) {
    const auto block = file->Read(offset);
    CHECK(block.ok());
    const size_t size = block->word_count * sizeof(uint64_t);
    for (const size_t byte : {size_t{block->kind}, size & 0xff, size >> 8 & 0xff, size >> 16}) {
      messages.push_back(static_cast<char>(byte));
    }
    messages.append(reinterpret_cast<const char*>(block->words.get()), size);
    offset = block->next_offset;
  }
  return messages;
}

void MakeCorpus(const std::string& corpus) {
  std::string sample = "/tmp/sample.XXXXXX";
  CHECK(mkdtemp(sample.data()) != nullptr);
  WriteSampleTrace(sample);
  std::filesystem::create_directories(corpus);
  for (size_t i = 0; i < kFuzzedFileCount; ++i) {
    const std::string path = sample + "/" + kFuzzedFiles[i];
    const char index = static_cast<char>(i);
    std::ofstream(absl::StrCat(corpus, "/raw-", i), std::ios::binary) << index << '\0' << Raw(path);
    std::ofstream(absl::StrCat(corpus, "/messages-", i), std::ios::binary)
        << index << '\1' << Messages(sample, kFuzzedFiles[i]);
  }
  std::filesystem::remove_all(sample);
}

}  // namespace
}  // namespace hindsight

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_corpus DIRECTORY\n");
    return 2;
  }
  hindsight::MakeCorpus(argv[1]);
  return 0;
}
