#include "recorder/process_facts.h"

#include <cpuid.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/unique_fd.h"

namespace hindsight {

std::string ExecutablePath(pid_t pid) {
  char path[PATH_MAX];
  const ssize_t length = readlink(absl::StrCat("/proc/", pid, "/exe").c_str(), path, sizeof(path));
  return length > 0 ? std::string(path, length) : std::string();
}

std::vector<uint64_t> AuxiliaryVector(pid_t pid) {
  std::vector<uint64_t> words;
  UniqueFd fd(open(absl::StrCat("/proc/", pid, "/auxv").c_str(), O_RDONLY | O_CLOEXEC));
  uint64_t word;
  while (fd.valid() && read(fd.get(), &word, sizeof(word)) == sizeof(word)) words.push_back(word);
  return words;
}

std::string CpuBrand() {
  // Leaves 0x80000002 to 4 hold 16 characters each.
  char brand[49] = {};
  for (unsigned leaf = 0; leaf < 3; ++leaf) {
    unsigned words[4];
    if (!__get_cpuid(0x80000002 + leaf, &words[0], &words[1], &words[2], &words[3])) return "";
    std::memcpy(brand + 16 * leaf, words, sizeof(words));
  }
  return std::string(absl::StripAsciiWhitespace(brand));
}

}  // namespace hindsight
