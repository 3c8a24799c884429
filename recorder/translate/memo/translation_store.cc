#include "recorder/translate/memo/translation_store.h"

#include <cpuid.h>
#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace hindsight {
namespace {

constexpr char kSuffix[] = ".code", kUnfinished[] = ".tmp";

// All of them are looked at whenever one is written.
constexpr size_t kMaxFiles = 4000;

XXH128_hash_t HashOf(absl::string_view text) { return XXH3_128bits(text.data(), text.size()); }

std::string HexOf(uint64_t high, uint64_t low) { return absl::StrFormat("%016x%016x", high, low); }

// The note by which the linker tells what it has made; empty: there is none.
std::string BuildIdOf(const dl_phdr_info& object) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object.dlpi_phdr[i];
    if (segment.p_type != PT_NOTE || segment.p_align > 4) continue;
    const auto* at = reinterpret_cast<const char*>(object.dlpi_addr + segment.p_vaddr);
    const char* const end = at + segment.p_memsz;
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      const auto& note = *reinterpret_cast<const ElfW(Nhdr)*>(at);
      const char* const text = at + sizeof(note) + (note.n_namesz + 3) / 4 * 4;
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof(ELF_NOTE_GNU)) {
        return std::string(text, note.n_descsz);
      }
      at = text + (note.n_descsz + 3) / 4 * 4;
    }
  }
  return "";
}

// All of the bytes: of a program that was linked without such a note.
std::string HashOfFile(const char* path) {
  const UniqueFd fd(open(path, O_RDONLY | O_CLOEXEC));
  struct stat facts;
  if (!fd.valid() || fstat(fd.get(), &facts) != 0 || facts.st_size <= 0) return "";
  const auto size = static_cast<size_t>(facts.st_size);
  void* const bytes = mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd.get(), 0);
  if (bytes == MAP_FAILED) return "";
  const XXH128_hash_t hash = XXH3_128bits(bytes, size);
  munmap(bytes, size);
  return HexOf(hash.high64, hash.low64);
}

int AddObject(dl_phdr_info* object, size_t, void* out) {
  const std::string name = object->dlpi_name;
  if (absl::StartsWith(name, "linux-vdso")) return 0;
  std::string identity = BuildIdOf(*object);
  if (identity.empty()) identity = HashOfFile(name.empty() ? "/proc/self/exe" : name.c_str());
  if (identity.empty()) return 1;
  absl::StrAppend(static_cast<std::string*>(out), identity.size(), ":", identity);
  return 0;
}

// Nobody else's, and nobody else could have put anything there.
bool IsOwn(const struct stat& facts) {
  return facts.st_uid == geteuid() && (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

void MakeDirectories(const std::string& path) {
  for (size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) {
    mkdir(path.substr(0, at).c_str(), S_IRWXU);
  }
  mkdir(path.c_str(), S_IRWXU);
}

// What the recorder's emulator can do for the program depends on it.
std::string ProcessorFeatures() {
  std::string features;
  for (const unsigned leaf : {1u, 7u}) {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    __get_cpuid_count(leaf, 0, &eax, &ebx, &ecx, &edx);
    if (leaf == 1) ebx = 0;  // which of the processors it is
    absl::StrAppend(&features, eax, ",", ebx, ",", ecx, ",", edx, ";");
  }
  return features;
}

bool WriteAll(int fd, absl::Span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

// `known` with those of `used` that it does not have: each after the one that it follows there, so
// that who has asked for that one is going to need it. The first ones come first.
std::vector<uint64_t> Merge(absl::Span<const uint64_t> known, absl::Span<const uint64_t> used) {
  const absl::flat_hash_set<uint64_t> is_known(known.begin(), known.end());
  absl::flat_hash_map<uint64_t, std::vector<uint64_t>> following;  // by one that is known
  std::vector<uint64_t> result;
  std::vector<uint64_t>* out = &result;
  for (const uint64_t page : used) {
    if (is_known.contains(page)) {
      out = &following[page];
    } else {
      out->push_back(page);
    }
  }
  for (const uint64_t page : known) {
    result.push_back(page);
    const auto it = following.find(page);
    if (it != following.end()) result.insert(result.end(), it->second.begin(), it->second.end());
  }
  return result;
}

}  // namespace

std::string RecorderIdentity() {
  std::string identity = ProcessorFeatures();
  return dl_iterate_phdr(AddObject, &identity) == 0 ? identity : "";
}

std::string TranslationStore::DefaultDirectory() {
  if (getauxval(AT_SECURE) != 0) return "";
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && cache[0] == '/') return absl::StrCat(cache, "/hindsight");
  const char* const home = std::getenv("HOME");
  struct stat facts;
  // Not somebody else's, as with sudo.
  if (home == nullptr || home[0] != '/' || stat(home, &facts) != 0 || facts.st_uid != geteuid()) {
    return "";
  }
  return absl::StrCat(home, "/.cache/hindsight");
}

std::unique_ptr<TranslationStore> TranslationStore::Open(const std::string& directory,
                                                         std::string identity, uint64_t max_bytes) {
  if (directory.empty() || identity.empty()) return nullptr;
  MakeDirectories(directory);
  UniqueFd fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat facts;
  if (!fd.valid() || fstat(fd.get(), &facts) != 0 || !IsOwn(facts)) return nullptr;
  return std::unique_ptr<TranslationStore>(
      new TranslationStore(std::move(fd), std::move(identity), max_bytes));
}

TranslationStore::TranslationStore(UniqueFd directory, std::string identity, uint64_t max_bytes)
    : directory_(std::move(directory)), identity_(std::move(identity)), max_bytes_(max_bytes) {}

TranslationKey TranslationStore::KeyOf(absl::string_view name) const {
  const XXH128_hash_t hash = HashOf(absl::StrCat(identity_.size(), ":", identity_, name));
  return {.low = hash.low64, .high = hash.high64};
}

std::unique_ptr<TranslationFile> TranslationStore::Load(absl::string_view name) const {
  const TranslationKey key = KeyOf(name);
  const std::string file_name = absl::StrCat(HexOf(key.high, key.low), kSuffix);
  const UniqueFd fd(
      openat(directory_.get(), file_name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat facts;
  if (!fd.valid() || fstat(fd.get(), &facts) != 0 || !S_ISREG(facts.st_mode) || !IsOwn(facts)) {
    return nullptr;
  }
  futimens(fd.get(), nullptr);  // it is used
  return TranslationFile::Open(fd.get(), key);
}

void TranslationStore::Save(absl::string_view name, const TranslationFile* known,
                            absl::Span<const Translation* const> made,
                            absl::Span<const uint64_t> used) const {
  std::vector<Translation> old;
  std::vector<uint64_t> pages;
  if (known != nullptr) {
    pages = known->Pages();
    for (const uint64_t page : pages) {
      for (Translation& translation : known->InPage(page)) old.push_back(std::move(translation));
    }
  }
  // What was made last comes first.
  std::vector<const Translation*> all(made.rbegin(), made.rend());
  for (const Translation& translation : old) all.push_back(&translation);
  const TranslationKey key = KeyOf(name);
  const std::vector<std::vector<uint8_t>> pieces = EncodeTranslations(key, all, Merge(pages, used));
  uint64_t bytes = 0;
  for (const std::vector<uint8_t>& piece : pieces) bytes += piece.size();
  if (bytes < max_bytes_ && Write(HexOf(key.high, key.low), pieces)) DropOldest();
}

bool TranslationStore::Write(const std::string& file_name,
                             absl::Span<const std::vector<uint8_t>> pieces) const {
  const std::string unfinished = absl::StrCat(file_name, ".", getpid(), kUnfinished);
  const UniqueFd fd(openat(directory_.get(), unfinished.c_str(),
                           O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                           S_IRUSR | S_IWUSR));
  if (!fd.valid()) return false;
  const bool whole = std::all_of(pieces.begin(), pieces.end(),
                                 [&](const auto& piece) { return WriteAll(fd.get(), piece); });
  const std::string finished = absl::StrCat(file_name, kSuffix);
  if (whole &&
      renameat(directory_.get(), unfinished.c_str(), directory_.get(), finished.c_str()) == 0) {
    return true;
  }
  unlinkat(directory_.get(), unfinished.c_str(), 0);
  return false;
}

// What files that have `bytes` now may have.
uint64_t TranslationStore::MostBytes(uint64_t bytes) const {
  constexpr uint64_t kShare = 4;
  struct statvfs facts;
  if (fstatvfs(directory_.get(), &facts) != 0) return max_bytes_;
  return std::min(max_bytes_, (facts.f_bavail * facts.f_frsize + bytes) / kShare);
}

void TranslationStore::DropOldest() const {
  struct File {
    timespec used;
    uint64_t bytes;
    std::string name;
  };
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(
      fdopendir(openat(directory_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)), closedir);
  if (entries == nullptr) return;
  std::vector<File> files;
  uint64_t total = 0;
  while (const dirent* entry = readdir(entries.get())) {
    const absl::string_view name = entry->d_name;
    struct stat facts;
    if ((!absl::EndsWith(name, kSuffix) && !absl::EndsWith(name, kUnfinished)) ||
        fstatat(directory_.get(), entry->d_name, &facts, AT_SYMLINK_NOFOLLOW) != 0) {
      continue;
    }
    files.push_back({facts.st_mtim, static_cast<uint64_t>(facts.st_size), std::string(name)});
    total += files.back().bytes;
  }
  std::sort(files.begin(), files.end(), [](const File& one, const File& other) {
    return std::pair(one.used.tv_sec, one.used.tv_nsec) <
           std::pair(other.used.tv_sec, other.used.tv_nsec);
  });
  const uint64_t most = MostBytes(total);
  size_t left = files.size();
  for (const File& file : files) {
    if (total <= most && left <= kMaxFiles) return;
    --left;
    if (unlinkat(directory_.get(), file.name.c_str(), 0) == 0) total -= file.bytes;
  }
}

}  // namespace hindsight
