#include "tracefmt/fuzz/fuzzed_trace.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/check.h"
#include "tracefmt/storage/block.h"
#include "tracefmt/storage/trace_directory.h"

namespace hindsight {
namespace {

namespace fs = std::filesystem;

std::string Contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void Write(const fs::path& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << bytes;
  CHECK(file.good());
}

// A file made of the messages in `input`.
std::string Framed(absl::Span<const uint8_t> input) {
  BlockEncoder encoder;
  std::string file;
  while (input.size() >= 4) {
    const uint16_t kind = static_cast<uint16_t>((input[0] & 0x7f) | (input[0] & 0x80) << 8);
    const size_t size =
        std::min<size_t>(input[1] | input[2] << 8 | input[3] << 16, input.size() - 4);
    std::vector<uint8_t> message(input.begin() + 4, input.begin() + 4 + size);
    message.resize((size + 7) / 8 * 8);
    const auto block = encoder.Encode(static_cast<BlockKind>(kind), message, file.size());
    CHECK(block.ok());
    file.append(block->begin(), block->end());
    input.remove_prefix(4 + size);
  }
  return file;
}

// The messages of a file, as an input has them; empty if it is no file of blocks.
std::string Messages(const std::string& directory, const std::string& name) {
  const auto file = BlockFile::Open(*TraceDirectory::Open(directory), name);
  CHECK(file.ok());
  std::string messages;
  uint64_t offset = 0;
  while (!file->AtEnd(offset)) {
    const auto block = file->Read(offset);
    if (!block.ok()) return "";
    const size_t size = block->word_count * sizeof(uint64_t);
    for (const size_t byte : {size_t{block->kind}, size & 0xff, size >> 8 & 0xff, size >> 16}) {
      messages.push_back(static_cast<char>(byte));
    }
    messages.append(reinterpret_cast<const char*>(block->words.get()), size);
    offset = block->next_offset;
  }
  return messages;
}

}  // namespace

FuzzedTrace::FuzzedTrace(const std::function<void(const std::string&)>& write)
    : directory_(access("/dev/shm", W_OK) == 0 ? "/dev/shm/fuzz.XXXXXX" : "/tmp/fuzz.XXXXXX") {
  CHECK(mkdtemp(directory_.data()) != nullptr);
  write(directory_);
  for (const auto& entry : fs::recursive_directory_iterator(directory_)) {
    if (!entry.is_regular_file() || entry.path().filename() == "lock") continue;
    files_[fs::relative(entry.path(), directory_).string()] = Contents(entry.path());
  }
  CHECK(!files_.empty());
}

FuzzedTrace::~FuzzedTrace() { fs::remove_all(directory_); }

void FuzzedTrace::Change(absl::Span<const uint8_t> input) {
  const auto zero = std::find(input.begin(), input.end(), 0);
  const std::string name(input.begin(), zero);
  input.remove_prefix(std::min<size_t>(name.size() + 1, input.size()));
  auto file = files_.find(name);
  if (file == files_.end()) {
    size_t sum = 0;
    for (const char c : name) sum += static_cast<uint8_t>(c);
    file = std::next(files_.begin(), static_cast<ptrdiff_t>(sum % files_.size()));
  }
  changed_ = file->first;
  const bool messages = !input.empty() && (input[0] & 1) != 0;
  if (!input.empty()) input.remove_prefix(1);
  Write(directory_ + "/" + changed_,
        messages ? Framed(input) : std::string(input.begin(), input.end()));
}

void FuzzedTrace::Restore() {
  if (!changed_.empty()) Write(directory_ + "/" + changed_, files_[changed_]);
  changed_.clear();
}

void FuzzedTrace::WriteSeeds(const std::string& corpus) const {
  fs::create_directories(corpus);
  for (const auto& [name, bytes] : files_) {
    const std::string messages = Messages(directory_, name);
    const std::string seed = absl::StrReplaceAll(name, {{"/", "-"}});
    if (messages.empty()) continue;
    Write(corpus + "/" + seed, absl::StrCat(name, std::string("\0\1", 2), messages));
    if (name != "manifest") continue;
    Write(corpus + "/raw-" + seed, absl::StrCat(name, std::string(2, '\0'), bytes));
  }
}

}  // namespace hindsight
