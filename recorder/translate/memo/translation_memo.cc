#include "recorder/translate/memo/translation_memo.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "recorder/translate/agent/layout.h"

namespace hindsight {
namespace {

// Of code that changes, what was there last.
constexpr size_t kVersions = 4;
// Where the stubs of an arena lie.
constexpr uint64_t kFirstChunk = 4096;
// A file is written anew if it gets so many times as much, or if so many blocks come in.
constexpr size_t kWorthSaving = 32;

int ArenaOf(uint64_t address) { return address - kLibraryArena < kArenaBytes ? 0 : 1; }

uint64_t ArenaFor(uint64_t guest_pc) {
  return kLibraryWindow.Has(guest_pc, guest_pc) ? kLibraryArena : kPieArena;
}

// Empty: code in it is nobody's, or can change.
std::string NameOf(const MapRegion& region) {
  const bool constant = (region.protection & PROT_WRITE) == 0 && !region.shared;
  if (!constant || (region.inode == 0 && region.name != "[vdso]")) return "";
  return absl::StrCat(region.start, ",", region.file_offset, ",", region.device_major, ",",
                      region.device_minor, ",", region.inode, ",", region.name);
}

}  // namespace

class TranslationMemo::Module {
 public:
  using Versions = absl::InlinedVector<const Translation*, 1>;

  Module(std::string name, std::unique_ptr<TranslationFile> file)
      : name_(std::move(name)), file_(std::move(file)) {}

  const std::string& name() const { return name_; }
  const TranslationFile* file() const { return file_.get(); }
  absl::Span<const Translation* const> made() const { return made_; }

  Versions At(uint64_t guest_pc) const {
    const auto it = by_pc_.find(guest_pc);
    return it == by_pc_.end() ? Versions() : it->second;
  }
  std::vector<const Translation*> InPage(uint64_t page) const {
    const auto it = by_page_.find(page);
    return it == by_page_.end() ? std::vector<const Translation*>() : it->second;
  }
  void Add(const Translation* translation) {
    const uint64_t guest_pc = translation->guest_pc;
    Versions& versions = by_pc_[guest_pc];
    auto& in_page = by_page_[guest_pc / kPageBytes];
    if (versions.empty()) {
      in_page.push_back(translation);
    } else {
      std::replace(in_page.begin(), in_page.end(), versions.front(), translation);
    }
    if (versions.size() == kVersions) versions.pop_back();
    versions.insert(versions.begin(), translation);
  }
  void NoteMade(const Translation* translation) { made_.push_back(translation); }
  // Those in `page` of the file; none if they have been asked for.
  std::vector<Translation>* Load(uint64_t page) {
    if (file_ == nullptr) return nullptr;
    const auto [it, first] = loaded_.try_emplace(page);
    if (!first) return nullptr;
    it->second = std::make_unique<std::vector<Translation>>(file_->InPage(page));
    return it->second.get();
  }

 private:
  const std::string name_;                       // in the store; empty: not there
  const std::unique_ptr<TranslationFile> file_;  // null: the store had none
  std::vector<const Translation*> made_;         // in this recording, to be stored
  // By pages' numbers.
  absl::flat_hash_map<uint64_t, std::unique_ptr<std::vector<Translation>>> loaded_;
  absl::flat_hash_map<uint64_t, std::vector<const Translation*>> by_page_;  // the last versions
  absl::flat_hash_map<uint64_t, Versions> by_pc_;
};

TranslationMemo::TranslationMemo(std::unique_ptr<TranslationStore> store)
    : store_(std::move(store)), others_(std::make_unique<Module>("", nullptr)) {}

TranslationMemo::~TranslationMemo() = default;

TranslationMemo::Chunk TranslationMemo::TakeChunk(uint64_t arena_start) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return TakeChunkLocked(arena_start);
}

TranslationMemo::Chunk TranslationMemo::TakeChunkLocked(uint64_t arena_start) {
  const int arena = ArenaOf(arena_start);
  if (!free_[arena].empty()) {
    const Chunk chunk = free_[arena].back();
    free_[arena].pop_back();
    return chunk;
  }
  const uint64_t offset = kFirstChunk + taken_bytes_[arena];
  if (offset + kChunkBytes > kArenaBytes) return {};
  taken_bytes_[arena] += kChunkBytes;
  return {arena_start + offset, arena_start + offset + kChunkBytes};
}

void TranslationMemo::GiveBack(Chunk chunk) {
  if (chunk.end - chunk.start < kLeastChunkBytes) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  free_[ArenaOf(chunk.start)].push_back(chunk);
}

TranslationMemo::Module* TranslationMemo::ModuleOf(const MapRegion& region) {
  std::string name = NameOf(region);
  if (name.empty()) return others();
  const std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<Module>& module = modules_[name];
  if (module == nullptr) {
    auto file = store_ == nullptr ? nullptr : store_->Load(name);
    module = std::make_unique<Module>(std::move(name), std::move(file));
  }
  return module.get();
}

// 0: the arena is full.
uint64_t TranslationMemo::PlaceFor(uint64_t guest_pc, uint64_t bytes) {
  const uint64_t arena = ArenaFor(guest_pc);
  Chunk& chunk = loading_[ArenaOf(arena)];
  const uint64_t size = (bytes + kHostAlignment - 1) / kHostAlignment * kHostAlignment;
  if (chunk.end - chunk.start < size) chunk = TakeChunkLocked(arena);
  if (chunk.end - chunk.start < size) return 0;
  return std::exchange(chunk.start, chunk.start + size);
}

// False: there is none for it.
bool TranslationMemo::Place(Translation* translation) {
  translation->host = PlaceFor(translation->guest_pc, translation->block.code.size());
  return translation->host != 0 && CanMove(*translation);
}

void TranslationMemo::Load(Module* module, uint64_t page) {
  std::vector<Translation>* const loaded = module->Load(page);
  if (loaded == nullptr) return;
  for (Translation& translation : *loaded) {
    if (Place(&translation)) module->Add(&translation);
  }
}

const Translation* TranslationMemo::Find(Module* module, uint64_t guest_pc, const BytesAt& bytes_at,
                                         bool checked) {
  Module::Versions candidates;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    Load(module, guest_pc / kPageBytes);
    candidates = module->At(guest_pc);
  }
  for (const Translation* candidate : candidates) {
    if ((candidate->checks_code || !checked) && Fits(*candidate, bytes_at)) return candidate;
  }
  return nullptr;
}

std::vector<const Translation*> TranslationMemo::InPage(Module* module, uint64_t address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Load(module, address / kPageBytes);
  return module->InPage(address / kPageBytes);
}

const Translation* TranslationMemo::Add(Module* module,
                                        std::unique_ptr<const Translation> translation) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Translation* const added = made_.emplace_back(std::move(translation)).get();
  if (module == nullptr) return added;
  if (store_ != nullptr && !module->name().empty() && added->lasting) module->NoteMade(added);
  module->Add(added);
  return added;
}

void TranslationMemo::Save() {
  if (store_ == nullptr) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [name, module] : modules_) {
    const uint64_t known = module->file() == nullptr ? 0 : module->file()->block_count();
    if (module->made().size() * kWorthSaving <= known) continue;
    store_->Save(name, module->file(), module->made());
  }
}

}  // namespace hindsight
