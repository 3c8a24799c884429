#include "cli/states/file_contents.h"

#include <elf.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "base/status_macros.h"

namespace hindsight {
namespace {

constexpr absl::string_view kWords[] = {"snapshot ", "memory ", "register "};
constexpr size_t kLongestWord = 9;

absl::Status Other(OutputKind kind) {
  return absl::InvalidArgumentError(kind == OutputKind::kCore ? "not a core" : "not edits");
}

bool MayBeInALine(unsigned char c) {
  return absl::ascii_isdigit(c) || absl::ascii_islower(c) || c == ' ' || c == '_' || c == '.';
}

}  // namespace

absl::Status FileContents::Check(uint64_t offset, absl::string_view bytes) {
  switch (kind_) {
    case OutputKind::kCore:
      return CheckCore(offset, bytes);
    case OutputKind::kEdits:
      return CheckEdits(offset, bytes);
  }
  return absl::InvalidArgumentError("no such kind of file");
}

absl::Status FileContents::CheckWhole() const {
  const bool whole = kind_ == OutputKind::kCore ? has_header_ : size_ > 0 && line_.empty();
  return whole ? absl::OkStatus() : Other(kind_);
}

absl::Status FileContents::CheckCore(uint64_t offset, absl::string_view bytes) {
  if (offset >= sizeof(Elf64_Ehdr)) return absl::OkStatus();
  Elf64_Ehdr header = {};
  if (offset != 0 || bytes.size() != sizeof(header)) return Other(kind_);
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_type != ET_CORE) {
    return Other(kind_);
  }
  has_header_ = true;
  return absl::OkStatus();
}

absl::Status FileContents::CheckEdits(uint64_t offset, absl::string_view bytes) {
  if (offset != size_) return Other(kind_);
  size_ += bytes.size();
  for (const char c : bytes) {
    const bool begun = line_.size() == kLongestWord || c == '\n';
    const bool fits =
        std::any_of(std::begin(kWords), std::end(kWords),
                    [&](absl::string_view word) { return absl::StartsWith(line_, word); });
    if (begun && !fits) return Other(kind_);
    if (c == '\n') {
      line_.clear();
    } else if (!MayBeInALine(static_cast<unsigned char>(c))) {
      return Other(kind_);
    } else if (line_.size() < kLongestWord) {
      line_.push_back(c);
    }
  }
  return absl::OkStatus();
}

}  // namespace hindsight
