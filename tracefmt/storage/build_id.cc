#include "tracefmt/storage/build_id.h"

#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/types/span.h"

namespace hindsight {
namespace {

// Bounds on what a wild file can make us read; real ones have some 13 headers and notes of 100 B.
constexpr size_t kMaxProgramHeaders = 256;
constexpr size_t kMaxNoteBytes = 64 << 10;

bool ReadAt(int fd, uint64_t offset, void* out, size_t size) {
  return pread(fd, out, size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size);
}

// The build-id in a segment of notes, each a header, a name and a description padded to 4 bytes.
std::string FindInNotes(absl::Span<const char> notes) {
  const auto padded = [](uint64_t size) { return (size + 3) & ~uint64_t{3}; };
  while (notes.size() >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr note;
    std::memcpy(&note, notes.data(), sizeof(note));
    notes.remove_prefix(sizeof(note));
    const uint64_t name_bytes = padded(note.n_namesz);
    const uint64_t body_bytes = padded(note.n_descsz);
    if (name_bytes > notes.size() || body_bytes > notes.size() - name_bytes) return "";
    const bool gnu = note.n_namesz == sizeof(ELF_NOTE_GNU) &&
                     std::memcmp(notes.data(), ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU)) == 0;
    if (gnu && note.n_type == NT_GNU_BUILD_ID) {
      return std::string(notes.data() + name_bytes, note.n_descsz);
    }
    notes.remove_prefix(name_bytes + body_bytes);
  }
  return "";
}

}  // namespace

std::string ReadBuildId(int fd) {
  Elf64_Ehdr header;
  if (!ReadAt(fd, 0, &header, sizeof(header)) ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_phentsize != sizeof(Elf64_Phdr)) {
    return "";
  }
  std::vector<Elf64_Phdr> segments(std::min<size_t>(header.e_phnum, kMaxProgramHeaders));
  if (!ReadAt(fd, header.e_phoff, segments.data(), segments.size() * sizeof(Elf64_Phdr))) return "";
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_NOTE || segment.p_filesz > kMaxNoteBytes) continue;
    std::vector<char> notes(segment.p_filesz);
    if (!ReadAt(fd, segment.p_offset, notes.data(), notes.size())) continue;
    const std::string id = FindInNotes(notes);
    if (!id.empty()) return id;
  }
  return "";
}

}  // namespace hindsight
