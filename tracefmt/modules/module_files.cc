#include "tracefmt/modules/module_files.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "tracefmt/modules/stored_modules.h"
#include "tracefmt/storage/block.h"
#include "tracefmt/storage/message.h"
#include "tracefmt/trace.capnp.h"

namespace hindsight {
namespace {

// What an empty module's bytes point to, so that they are not null.
constexpr uint8_t kNoBytes[1] = {};

// A hash becomes a file name: nothing but hex digits may get there.
bool IsHash(const std::string& hash) {
  return hash.size() == 32 && hash.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// What a module took in version 1.
constexpr uint64_t kModuleWords = 5;

// Modules without their indices.
template <typename Root>
absl::Status ReadModules(const std::string& path, const RawBlock& block, ReadBudget* budget,
                         const Root& list, std::vector<Module>* out) {
  const auto error = [&](absl::StatusCode code, const char* what) {
    return BlockError(code, path, block.offset, what);
  };
  if (!ListFits(list.getModules().size(), kModuleWords, block.word_count)) {
    return error(absl::StatusCode::kDataLoss, "impossible list of modules");
  }
  for (const auto from : list.getModules()) {
    Module module;
    module.path = AsString(from.getPath());
    module.build_id = AsString(from.getBuildId());
    module.hash = AsString(from.getHash());
    module.size_bytes = from.getSizeBytes();
    module.stored = from.getStored();
    if (module.stored && !IsHash(module.hash)) {
      return error(absl::StatusCode::kDataLoss, "impossible module");
    }
    if (!budget->Take(sizeof(ModuleList::value_type) + module.path.size() + module.build_id.size() +
                      module.hash.size())) {
      return error(absl::StatusCode::kResourceExhausted, "holds more than such a file can");
    }
    out->push_back(std::move(module));
  }
  return absl::OkStatus();
}

}  // namespace

void ModuleFiles::Read(ReadBudget* budget, std::vector<std::string>* warnings) {
  list_status_ = ReadList(budget);
  // A recorder that died while listing a module had not used it yet.
  if (!list_status_.ok() && !absl::IsOutOfRange(list_status_)) {
    warnings->push_back(absl::StrCat("modules dropped: ", list_status_.message()));
  }
}

void ModuleFiles::LeaveOutMissing() {
  std::string path;
  std::erase_if(modules_, [&](const auto& module) {
    return module.second.stored && absl::IsNotFound(OpenFile(module.second, &path).status());
  });
}

ModuleFiles::~ModuleFiles() {
  for (const auto& [hash, map] : maps_) {
    if (!map.empty()) munmap(const_cast<uint8_t*>(map.data()), map.size());
  }
}

absl::Status ModuleFiles::ReadList(ReadBudget* budget) {
  ASSIGN_OR_RETURN(const BlockFile file, BlockFile::Open(files_, "modules/list"));
  uint64_t offset = 0;
  while (!file.AtEnd(offset)) {
    ASSIGN_OR_RETURN(const RawBlock block, file.Read(offset));
    budget->AddStored(block.next_offset - offset);
    offset = block.next_offset;
    if (block.kind < kFirstIgnorableBlockKind) {
      RETURN_IF_ERROR(ReadBlock(file.path(), block, budget));
    }
  }
  return absl::OkStatus();
}

absl::Status ModuleFiles::ReadBlock(const std::string& path, const RawBlock& block,
                                    ReadBudget* budget) {
  std::vector<Module> modules;
  if (block.Is(BlockKind::kModules)) {
    const absl::Status read =
        VisitMessage<wire::ModuleList>(path, block, [&](wire::ModuleList::Reader list) {
          return ReadModules(path, block, budget, list, &modules);
        });
    for (Module& module : modules) {
      if (next_ < INT32_MAX) modules_.emplace(static_cast<int32_t>(next_++), std::move(module));
    }
    return read;
  }
  if (!block.Is(BlockKind::kKeptModules)) {
    return BlockError(absl::StatusCode::kUnimplemented, path, block.offset,
                      absl::StrCat("unknown kind of block ", block.kind));
  }
  const auto visit = [&](wire::KeptModules::Reader kept) -> absl::Status {
    RETURN_IF_ERROR(ReadModules(path, block, budget, kept, &modules));
    const auto indices = kept.getIndices();
    bool possible = next_ == 0 && indices.size() == modules.size() && kept.getListed() <= INT32_MAX;
    for (uint32_t i = 0; possible && i < indices.size(); ++i) {
      possible = indices[i] < kept.getListed() && (i == 0 || indices[i] > indices[i - 1]);
    }
    if (!possible) {
      return BlockError(absl::StatusCode::kDataLoss, path, block.offset,
                        "impossible list of modules");
    }
    for (uint32_t i = 0; i < indices.size(); ++i) {
      modules_.emplace(static_cast<int32_t>(indices[i]), std::move(modules[i]));
    }
    next_ = kept.getListed();
    return absl::OkStatus();
  };
  return VisitMessage<wire::KeptModules>(path, block, visit);
}

absl::StatusOr<absl::Span<const uint8_t>> ModuleFiles::Bytes(int32_t module) const {
  const auto found = modules_.find(module);
  if (found == modules_.end()) {
    return absl::NotFoundError(absl::StrCat(files_.PathOf("modules"), ": no module ", module));
  }
  const Module& wanted = found->second;
  if (!wanted.stored) {
    return absl::NotFoundError(
        absl::StrCat(files_.PathOf("modules"), ": the bytes of ", wanted.path, " were not stored"));
  }
  std::lock_guard<std::mutex> lock(mutex_);
  if (const auto known = maps_.find(wanted.hash); known != maps_.end()) {
    if (known->second.size() == wanted.size_bytes) return known->second;
    return absl::DataLossError(
        absl::StrCat(files_.PathOf("modules"), ": ", wanted.path, " is listed with two sizes"));
  }
  ASSIGN_OR_RETURN(const absl::Span<const uint8_t> bytes, Map(wanted));
  maps_.emplace(wanted.hash, bytes);
  return bytes;
}

absl::StatusOr<UniqueFd> ModuleFiles::OpenFile(const Module& module, std::string* path) const {
  const std::string name = absl::StrCat("modules/", module.hash);
  *path = files_.PathOf(name);
  absl::StatusOr<UniqueFd> opened = files_.OpenFile(name);
  if (!absl::IsNotFound(opened.status()) || files_.name().empty()) return opened;
  *path = files_.Recording().PathOf(name);
  return files_.Recording().OpenFile(name);
}

absl::StatusOr<absl::Span<const uint8_t>> ModuleFiles::Map(const Module& module) const {
  std::string path;
  ASSIGN_OR_RETURN(const UniqueFd fd, OpenFile(module, &path));
  struct stat status;
  if (fstat(fd.get(), &status) != 0) return absl::ErrnoToStatus(errno, path);
  if (!S_ISREG(status.st_mode) || static_cast<uint64_t>(status.st_size) != module.size_bytes) {
    return BlockError(
        absl::StatusCode::kDataLoss, path, std::min<uint64_t>(status.st_size, module.size_bytes),
        absl::StrCat("ends here; the recorded module has ", module.size_bytes, " bytes"));
  }
  if (module.size_bytes == 0) return absl::MakeConstSpan(kNoBytes).first(0);
  void* map = mmap(nullptr, module.size_bytes, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (map == MAP_FAILED) return absl::ErrnoToStatus(errno, path);
  const absl::Span<const uint8_t> bytes(static_cast<const uint8_t*>(map), module.size_bytes);
  if (ContentHash(bytes) != module.hash) {
    munmap(map, module.size_bytes);
    return BlockError(absl::StatusCode::kDataLoss, path, 0, "checksum mismatch");
  }
  return bytes;
}

absl::Status ModuleFiles::Read(int32_t module, uint64_t offset, absl::Span<uint8_t> out) const {
  ASSIGN_OR_RETURN(const absl::Span<const uint8_t> bytes, Bytes(module));
  const absl::Span<const uint8_t> have =
      bytes.subspan(std::min<uint64_t>(offset, bytes.size()), out.size());
  std::copy(have.begin(), have.end(), out.begin());
  std::fill(out.begin() + have.size(), out.end(), uint8_t{0});
  return absl::OkStatus();
}

}  // namespace hindsight
