// Runs a fuzz target as an ordinary test: all of a corpus, then mutations of it for some seconds.
//
//   TEST [--seconds=N] [--runs=N] [--max_mib=N] CORPUS_DIRECTORY_OR_FILE...
//
// The same LLVMFuzzerTestOneInput can be linked with libFuzzer, which is guided by coverage and
// finds more in hours; this one needs no compiler of its own and finds again in seconds what was
// found before. It stops after --seconds or --runs, so that a fast machine does not get to
// mutations that no other has seen. The seed is printed. The input being run lies in a file, which
// a crash leaves: run the test with that file and --seconds=0 to see it again.
//
// The process must not have used more memory than --max_mib at any time.

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/test_seed.h"
#include "base/unique_fd.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace hindsight {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Corpus = std::vector<std::string>;

constexpr size_t kMaxInputBytes = 1 << 20;
constexpr int kMaxMutations = 6;
// One input takes milliseconds; this only ends what hangs (SIGALRM kills).
constexpr unsigned kMaxSecondsPerInput = 60;

// Where the input being run is kept for after a crash; in memory where there is such a file system.
class LastInput {
 public:
  LastInput() {
    const std::string parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    path_ = parent + "/fuzz-input-" + std::to_string(getpid());
    fd_.Reset(open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    CHECK(fd_.valid());
    std::printf("the input being run is in %s\n", path_.c_str());
  }
  ~LastInput() { unlink(path_.c_str()); }
  LastInput(const LastInput&) = delete;
  LastInput& operator=(const LastInput&) = delete;

  void Keep(const std::string& input) const {
    CHECK(ftruncate(fd_.get(), 0) == 0);
    CHECK(pwrite(fd_.get(), input.data(), input.size(), 0) == static_cast<ssize_t>(input.size()));
  }

 private:
  std::string path_;
  UniqueFd fd_;
};

void Run(const LastInput& last, const std::string& input) {
  last.Keep(input);
  // A copy of its own, so that a sanitizer sees reads after its end.
  const std::vector<uint8_t> bytes(input.begin(), input.end());
  alarm(kMaxSecondsPerInput);
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  alarm(0);
}

void AddFile(const fs::path& path, Corpus* corpus) {
  std::ifstream file(path, std::ios::binary);
  CHECK(file.good());
  corpus->emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

Corpus ReadCorpus(const std::vector<std::string>& paths) {
  std::vector<fs::path> files;
  for (const std::string& path : paths) {
    if (!fs::is_directory(path)) files.emplace_back(path);
    if (!fs::is_directory(path)) continue;
    for (const auto& entry : fs::directory_iterator(path)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());  // so that the seed says everything
  Corpus corpus;
  for (const fs::path& file : files) AddFile(file, &corpus);
  return corpus;
}

// Changes inputs at random.
class Mutator {
 public:
  explicit Mutator(uint32_t seed) : random_(seed) {}

  std::string Mutated(const Corpus& corpus) {
    std::string input = corpus[Below(corpus.size())];
    for (uint64_t i = 1 + Below(kMaxMutations); i > 0; --i) Mutate(corpus, &input);
    input.resize(std::min(input.size(), kMaxInputBytes));
    return input;
  }

 private:
  uint64_t Below(uint64_t limit) { return limit == 0 ? 0 : random_() % limit; }

  void Mutate(const Corpus& corpus, std::string* input) {
    const size_t at = Below(input->size() + 1);
    const size_t size =
        std::min<size_t>(Below(16) == 0 ? Below(4096) : Below(32), input->size() - at);
    switch (Below(8)) {
      case 0:
        input->insert(at, Other(corpus));
        break;
      case 1:
        input->erase(at, size);
        break;
      case 2:
        input->insert(at, input->substr(at, size));
        break;
      case 3:
        input->replace(at, size, Other(corpus));
        break;
      case 4:
        if (at < input->size()) (*input)[at] ^= static_cast<char>(1 << Below(8));
        break;
      case 5:
        if (at < input->size()) (*input)[at] = static_cast<char>(random_());
        break;
      default:
        PutNumber(at, input);
    }
  }

  // A piece of any input.
  std::string Other(const Corpus& corpus) {
    const std::string& other = corpus[Below(corpus.size())];
    return other.substr(Below(other.size() + 1), Below(64));
  }

  // One of the numbers that programs get wrong, in the place of 1, 2, 4 or 8 bytes.
  void PutNumber(size_t at, std::string* input) {
    const uint64_t number =
        (uint64_t{1} << Below(64)) - Below(3) + (Below(2) == 0 ? 0 : Below(100));
    const size_t bytes = size_t{1} << Below(4);
    // Numbers in messages stand at multiples of their size.
    if (Below(2) == 0) at -= at % bytes;
    if (at + bytes > input->size()) return;
    std::memcpy(input->data() + at, &number, bytes);
  }

  std::mt19937_64 random_;
};

long PeakMib() {
  rusage usage = {};
  CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
  return usage.ru_maxrss / 1024;
}

struct Flags {
  double seconds = 5;
  uint64_t max_runs = ~uint64_t{0};
  long max_mib = 0;  // 0: any
  std::vector<std::string> paths;
};

Flags Parse(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.starts_with("--seconds=")) {
      flags.seconds = std::stod(argument.substr(10));
    } else if (argument.starts_with("--runs=")) {
      flags.max_runs = std::stoull(argument.substr(7));
    } else if (argument.starts_with("--max_mib=")) {
      flags.max_mib = std::stol(argument.substr(10));
    } else {
      flags.paths.push_back(argument);
    }
  }
  return flags;
}

// What AddressSanitizer keeps of memory that was freed.
#ifdef __SANITIZE_ADDRESS__
constexpr long kQuarantineMib = 256;
#else
constexpr long kQuarantineMib = 0;
#endif

int RunAll(const Flags& flags) {
  const Corpus corpus = ReadCorpus(flags.paths);
  if (corpus.empty()) {
    std::fprintf(stderr, "no corpus\n");
    return 2;
  }
  const LastInput last;
  for (const std::string& input : corpus) Run(last, input);
  std::printf("%zu inputs of the corpus, %ld MiB\n", corpus.size(), PeakMib());
  Mutator mutator(TestSeed());
  const auto end = Clock::now() + std::chrono::duration<double>(flags.seconds);
  uint64_t runs = 0;
  for (; runs < flags.max_runs && Clock::now() < end; ++runs) Run(last, mutator.Mutated(corpus));
  const long peak = PeakMib();
  std::printf("%llu mutated inputs, %ld MiB\n", static_cast<unsigned long long>(runs), peak);
  if (flags.max_mib == 0 || peak <= flags.max_mib + kQuarantineMib) return 0;
  std::fprintf(stderr, "used more memory than %ld MiB\n", flags.max_mib);
  return 1;
}

}  // namespace
}  // namespace hindsight

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  return hindsight::RunAll(hindsight::Parse(argc, argv));
}
