#include "recorder/translate/memo/translation_memo.h"

#include <sys/mman.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "absl/container/node_hash_map.h"
#include "absl/strings/str_cat.h"
#include "recorder/translate/base/layout.h"

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
std::string NameOf(const MapRegion& region, bool exclusive) {
  const bool constant = (region.protection & PROT_WRITE) == 0 && !region.shared;
  if (!constant || (region.inode == 0 && region.name != "[vdso]")) return "";
  return absl::StrCat(exclusive ? "exclusive," : "", region.start, ",", region.file_offset, ",",
                      region.device_major, ",", region.device_minor, ",", region.inode, ",",
                      region.name);
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
  // If nothing newer is known.
  void AddOlder(const Translation* translation) {
    Versions& versions = by_pc_[translation->guest_pc];
    if (versions.empty()) {
      by_page_[translation->guest_pc / kPageBytes].push_back(translation);
    }
    if (versions.size() < kVersions) versions.push_back(translation);
  }
  void NoteMade(const Translation* translation) {
    made_.push_back(translation);
    NoteUse(translation->guest_pc / kPageBytes);
  }
  void NoteUse(uint64_t page) {
    if (used_pages_.insert(page).second) used_.push_back(page);
  }
  absl::Span<const uint64_t> used() const { return used_; }
  // nullptr: not looked up yet. Else nullptr in it: there is nothing in the file.
  std::unique_ptr<KnownPage>* page(uint64_t number) {
    const auto it = pages_.find(number);
    return it == pages_.end() ? nullptr : &it->second;
  }
  const KnownPage* SetPage(uint64_t number, std::unique_ptr<KnownPage> page) {
    return (pages_[number] = std::move(page)).get();
  }
  // The blocks of one of the pages; each time the same. `first`: asked for the first time.
  std::vector<const Translation*> BlocksOf(const KnownPage& page, bool* first) {
    const auto [it, added] = loaded_.try_emplace(page.image.page());
    *first = added;
    std::vector<Translation>& blocks = it->second;
    if (added) {
      for (const PageImage::Block& block : page.image.blocks()) {
        std::optional<Translation> one = page.image.Get(block, page.host);
        if (one.has_value()) blocks.push_back(*std::move(one));
      }
    }
    std::vector<const Translation*> result;
    for (const Translation& block : blocks) result.push_back(&block);
    return result;
  }

 private:
  const std::string name_;                       // in the store; empty: not there
  const std::unique_ptr<TranslationFile> file_;  // null: the store had none
  std::vector<const Translation*> made_;         // in this recording, to be stored
  std::vector<uint64_t> used_;                   // pages' numbers, as they were needed first
  absl::flat_hash_set<uint64_t> used_pages_;
  // By pages' numbers.
  absl::flat_hash_map<uint64_t, std::unique_ptr<KnownPage>> pages_;
  absl::node_hash_map<uint64_t, std::vector<Translation>> loaded_;
  absl::flat_hash_map<uint64_t, std::vector<const Translation*>> by_page_;  // the last versions
  absl::flat_hash_map<uint64_t, Versions> by_pc_;
};

TranslationMemo::TranslationMemo(std::unique_ptr<TranslationStore> store)
    : store_(std::move(store)),
      others_{std::make_unique<Module>("", nullptr), std::make_unique<Module>("", nullptr)} {}

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

TranslationMemo::Module* TranslationMemo::ModuleOf(const MapRegion& region, bool exclusive) {
  std::string name = NameOf(region, exclusive);
  if (name.empty()) return others(exclusive);
  const std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<Module>& module = modules_[name];
  if (module == nullptr) {
    auto file = store_ == nullptr ? nullptr : store_->Load(name);
    module = std::make_unique<Module>(std::move(name), std::move(file));
  }
  return module.get();
}

bool TranslationMemo::SharesUsually(const MapRegion& region) {
  const auto blocks = [this, &region](bool exclusive) {
    const TranslationFile* const file = ModuleOf(region, exclusive)->file();
    return file == nullptr ? size_t{0} : size_t{file->block_count()};
  };
  // All begin without sharing: who does so later on, or not always, has much code there as well.
  constexpr size_t kFew = 4;
  return blocks(/*exclusive=*/false) > kFew * blocks(/*exclusive=*/true);
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

const TranslationMemo::KnownPage* TranslationMemo::PlacePage(Module* module, uint64_t number) {
  if (module->file() == nullptr) return nullptr;
  if (const auto* known = module->page(number)) return known->get();
  std::unique_ptr<KnownPage> page;
  if (const std::optional<PageImage> image = module->file()->Image(number)) {
    const uint64_t host = PlaceFor(number * kPageBytes, image->code_bytes());
    if (host != 0 && image->CanMove(host)) {
      page = std::make_unique<KnownPage>(KnownPage{*image, host, module});
      places_.Add(&page->image, host);
    }
  }
  return module->SetPage(number, std::move(page));
}

const TranslationMemo::KnownPage* TranslationMemo::KnownPageOf(Module* module, uint64_t address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return PlacePage(module, address / kPageBytes);
}

std::optional<uint32_t> TranslationMemo::PlaceOf(const Module* module, uint64_t address) {
  const TranslationFile* const file = module->file();
  return file == nullptr ? std::nullopt : file->PlaceOf(address / kPageBytes);
}

std::optional<uint64_t> TranslationMemo::PageAt(const Module* module, uint32_t place) {
  const TranslationFile* const file = module->file();
  const std::optional<uint64_t> page = file == nullptr ? std::nullopt : file->PageAt(place);
  return page.has_value() ? std::optional(*page * kPageBytes) : std::nullopt;
}

void TranslationMemo::NoteUse(Module* module, uint64_t address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  module->NoteUse(address / kPageBytes);
}

absl::Span<const TranslationFile::PageLink> TranslationMemo::LinksTo(const KnownPage& page,
                                                                     uint64_t start, uint64_t end) {
  return page.module->file()->LinksTo(start, end);
}

std::vector<const Translation*> TranslationMemo::BlocksOf(const KnownPage& page) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return Load(page);
}

std::vector<const Translation*> TranslationMemo::Load(const KnownPage& page) {
  bool first = false;
  std::vector<const Translation*> blocks = page.module->BlocksOf(page, &first);
  if (!first) return blocks;
  for (const Translation* block : blocks) page.module->AddOlder(block);
  return blocks;
}

const Translation* TranslationMemo::Find(Module* module, uint64_t guest_pc, const BytesAt& bytes_at,
                                         bool checked) {
  Module::Versions candidates;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const KnownPage* const page = PlacePage(module, guest_pc / kPageBytes);
    if (page != nullptr && page->image.Find(guest_pc) != nullptr) Load(*page);
    candidates = module->At(guest_pc);
  }
  for (const Translation* candidate : candidates) {
    if ((candidate->checks_code || !checked) && Fits(*candidate, bytes_at)) return candidate;
  }
  return nullptr;
}

std::vector<const Translation*> TranslationMemo::InPage(Module* module, uint64_t address,
                                                        bool stored) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const KnownPage* const page = stored ? PlacePage(module, address / kPageBytes) : nullptr;
  if (page != nullptr) Load(*page);
  return module->InPage(address / kPageBytes);
}

const Translation* TranslationMemo::Add(Module* module,
                                        std::unique_ptr<const Translation> translation) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Translation* const added = made_.emplace_back(std::move(translation)).get();
  places_.Add(added);
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
    store_->Save(name, module->file(), module->made(), module->used());
  }
}

}  // namespace hindsight
