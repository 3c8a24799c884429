#include "tests/harness/files.h"

#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/check.h"

namespace hindsight::e2e {
namespace {

std::string RunfilesRoot() {
  if (const char* sources = getenv("TEST_SRCDIR")) return std::string(sources) + "/hindsight";
  // Run by hand.
  return std::filesystem::read_symlink("/proc/self/exe").string() + ".runfiles/hindsight";
}

}  // namespace

std::string Runfile(const std::string& path) {
  const std::string result = RunfilesRoot() + "/" + path;
  if (access(result.c_str(), R_OK) != 0) {
    std::fprintf(stderr, "%s is missing\n", result.c_str());
    std::abort();
  }
  return result;
}

std::string Hindsight() { return Runfile("cli/hindsight"); }

std::string Program(const std::string& name) { return Runfile("tests/programs/" + name); }

int LineOf(const std::string& file, const std::string& text) {
  std::ifstream source(Runfile("tests/programs/" + file));
  int number = 0, found = 0;
  for (std::string line; std::getline(source, line);) {
    ++number;
    if (line.find(text) == std::string::npos) continue;
    CHECK(found == 0);  // Must be one line only.
    found = number;
  }
  CHECK(found != 0);
  return found;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  file.close();
  CHECK(file.good());
}

TempDir::TempDir() : TempDir(getenv("TEST_TMPDIR") != nullptr ? getenv("TEST_TMPDIR") : "/tmp") {}

TempDir::TempDir(const std::string& parent) : path_(parent + "/hindsight_XXXXXX") {
  CHECK(mkdtemp(path_.data()) != nullptr);
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace hindsight::e2e
