#include "recorder/translate/program_code.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "emulator/code/instruction.h"
#include "recorder/translate/guard/code_check.h"
#include "recorder/translate/memo/translation.h"
#include "recorder/translate/stream/tsc_clock.h"
#include "tracefmt/records.h"

namespace hindsight {
namespace {

// What can be reached from a block will be asked for next: so many more are translated while the
// thread runs. But of code that may change, or is the last page of its mapping, while it waits.
constexpr size_t kBlocksAhead = 6, kChangingBlocksAtOnce = 8;
// Pages of known code that are taken while the program runs because the last one leads to them.
constexpr size_t kLinkedPages = 8;

// Of those that are there already, passed over at once: a request may have come meanwhile.
constexpr int kMostSkipped = 64;

// What is called there is asked for if it is needed.
constexpr uint64_t kFar = 64 * 1024;
bool IsFarFrom(uint64_t guest_pc, uint64_t pc) { return pc - guest_pc + kFar > 2 * kFar; }

// Of code for one block, at most: a bound for the room that is needed before its size is known.
constexpr uint64_t kLargestBlock = 32 * 1024;

// A translation takes as long as so many blocks that are known from another process.
constexpr size_t kTranslationCost = 8;

// What follows the block's last instruction is executed as well, sooner or later.
bool EndsInCall(absl::Span<const uint8_t> code) {
  const size_t n = code.size();
  return (n >= 5 && code[n - 5] == 0xe8) ||
         (n >= 2 && code[n - 2] == 0x0f && (code[n - 1] == 0x05 || code[n - 1] == 0xa2)) ||
         (n >= 2 && code[n - 2] == 0xff && (code[n - 1] & 0xf8) == 0xd0) ||
         (n >= 6 && code[n - 6] == 0xff && code[n - 5] == 0x15);
}

}  // namespace

ProgramCode::ProgramCode(pid_t process, const TranslationOptions& options, MemoryFile* file)
    : options_(options),
      file_(file),
      memo_(options.memo),
      cache_(file, memo_.get()),
      source_(
          process, [this](const MapRegion& region) { NoteRegion(region); }, options.code_files),
      bytes_at_([this](uint64_t pc) { return source_.At(pc); }),
      lasting_at_([this](uint64_t pc) {
        return source_.MayChange(pc) ? absl::Span<const uint8_t>() : source_.At(pc);
      }),
      needs_side_effect_([this](auto instruction) { return NeedsSideEffect(instruction); }),
      guard_(options.guards, file->control(), [file](uint64_t host) { return file->code(host); }),
      exclusive_(options.exclusive_memory) {
  cache_.WriteStubs(exclusive_);
  file->control()->exclusive = exclusive_ ? 1 : 0;
}

void ProgramCode::Inherit(ProgramCode* maker) {
  const std::vector<MapRegion> others = source_.Inherit(&maker->source_);
  if (!file_->CopyCode(*maker->file_)) {
    cache_.WriteStubs(exclusive_);
    return;
  }
  cache_.Inherit(maker->cache_);
  for (const MapRegion& region : others) cache_.Invalidate(region.start, region.end);
  const auto is_other = [&](uint64_t page) {
    return std::any_of(others.begin(), others.end(), [page](const MapRegion& region) {
      return page >= region.start && page < region.end;
    });
  };
  looked_up_ = maker->looked_up_;
  executed_ = maker->executed_;
  fetched_ = maker->fetched_;
  for (auto* pages : {&looked_up_, &executed_, &fetched_}) absl::erase_if(*pages, is_other);
  if (options_.executed_pages == nullptr) return;
  options_.executed_pages->Inherit(*maker->options_.executed_pages, is_other);
}

void ProgramCode::TakeAsked(absl::Span<const uint64_t> guest_pcs) {
  for (const uint64_t pc : guest_pcs) {
    if (cache_.Find(pc) != 0 || !source_.IsConstant(pc) || source_.At(pc).empty()) continue;
    AddKnownBlocks(pc);
    if (cache_.Find(pc) != 0) continue;
    if (const Translation* known = memo_->Find(ModuleOf(pc), pc, bytes_at_)) Add(known);
  }
}

bool ProgramCode::NeedsSideEffect(absl::Span<const uint8_t> instruction) {
  switch (Classify(instruction).policy) {
    case Policy::kNative:
    case Policy::kNondeterministic:
      return true;
    case Policy::kAssist: {
      const InstructionExecutor::Prepared& prepared = executor_.Prepare(instruction);
      needs_.Add(prepared.host.plan.needs);
      return prepared.method == InstructionExecutor::Method::kNone;
    }
    default:
      return false;
  }
}

void ProgramCode::NoteRegion(const MapRegion& region) {
  modules_[region.start] = memo_->ModuleOf(region, exclusive_);
  PublishRange(region.start, region.end);
  // A child that was made before it was known does not know whether it is the same there.
  NoteChange();
}

TranslationMemo::Module* ProgramCode::ModuleOf(uint64_t guest_pc) const {
  const MapRegion* region = source_.LookUp(guest_pc);
  const auto it = modules_.find(region == nullptr ? 0 : region->start);
  return region == nullptr || it == modules_.end() ? memo_->others(exclusive_) : it->second;
}

uint64_t ProgramCode::Translate(uint64_t guest_pc) {
  if (const uint64_t host = FindUnchanged(guest_pc)) return host;
  source_.ForgetWritable();
  if (source_.At(guest_pc).empty()) return 0;
  asked_pc_ = guest_pc;
  ahead_ = linked_pages_ = 0;
  asked_page_ = nullptr;
  reachable_ = {guest_pc};
  AddKnownBlocks(guest_pc);
  if (const uint64_t host = cache_.Find(guest_pc)) {
    NoteAsked(guest_pc);
    return host;
  }
  const size_t blocks = source_.IsConstant(guest_pc) ? 1 : kChangingBlocksAtOnce;
  for (size_t cost = 0; cost < blocks * kTranslationCost && !reachable_.empty();) {
    const uint64_t pc = reachable_.front();
    reachable_.pop_front();
    if (cache_.Find(pc) == 0 && !IsFarFrom(guest_pc, pc)) cost += CostOf(AddBlock(pc));
  }
  return cache_.Find(guest_pc);
}

// A block that checks its own bytes asks for itself when they have changed.
uint64_t ProgramCode::FindUnchanged(uint64_t guest_pc) {
  if (!source_.MayChange(guest_pc)) return cache_.Find(guest_pc);
  const Translation* translation = cache_.Get(guest_pc);
  if (translation == nullptr) return 0;
  source_.ForgetWritable();
  if (Fits(*translation, bytes_at_)) return translation->host;
  cache_.Drop(guest_pc);
  changing_.insert(PageOf(guest_pc));
  NoteChange();
  return 0;
}

bool ProgramCode::MayGoAhead(uint64_t guest_pc) const {
  if (cache_.Find(guest_pc) != 0 || !source_.IsConstant(guest_pc)) return false;
  return !IsFarFrom(asked_pc_, guest_pc);
}

bool ProgramCode::TranslateAhead() {
  while (ahead_ < kBlocksAhead * kTranslationCost && !reachable_.empty()) {
    const uint64_t pc = reachable_.front();
    reachable_.pop_front();
    const size_t cost = MayGoAhead(pc) ? CostOf(AddBlock(pc)) : 0;
    ahead_ += cost;
    if (cost != 0) return true;
  }
  return TakeNextPage() || TakeLinkedPage();
}

void ProgramCode::StopAhead() {
  reachable_.clear();
  asked_page_ = nullptr;
  for (auto& [module, ahead] : read_ahead_) ahead.Stop();
}

void ProgramCode::NoteAsked(uint64_t guest_pc) {
  TranslationMemo::Module* const module = ModuleOf(guest_pc);
  const std::optional<uint32_t> place = TranslationMemo::PlaceOf(module, guest_pc);
  if (!place.has_value()) return;
  memo_->NoteUse(module, guest_pc);
  asked_page_ = memo_->KnownPageOf(module, guest_pc);
  next_link_ = 0;
  const auto it = std::find_if(read_ahead_.begin(), read_ahead_.end(),
                               [=](const auto& other) { return other.first == module; });
  ReadAhead ahead = it == read_ahead_.end() ? ReadAhead() : it->second;
  if (it != read_ahead_.end()) read_ahead_.erase(it);
  ahead.Ask(*place);
  read_ahead_.emplace_back(module, ahead);
}

// The known page that holds `guest_pc`, if it may be taken in while the program runs, and has not
// been; else null.
const TranslationMemo::KnownPage* ProgramCode::PageToTake(uint64_t guest_pc) {
  if (looked_up_.contains(PageOf(guest_pc)) || !source_.IsConstant(guest_pc)) return nullptr;
  const TranslationMemo::KnownPage* const page = memo_->KnownPageOf(ModuleOf(guest_pc), guest_pc);
  if (page == nullptr || source_.At(guest_pc).empty()) return nullptr;
  return cache_.Find(page->image.blocks().front().guest_pc) == 0 ? page : nullptr;
}

// One that follows what was asked for, first in the module that was asked for last.
bool ProgramCode::TakeNextPage() {
  int skipped = 0;
  for (auto it = read_ahead_.rbegin(); it != read_ahead_.rend(); ++it) {
    auto& [module, ahead] = *it;
    while (ahead.HasNext()) {
      const std::optional<uint64_t> page = TranslationMemo::PageAt(module, ahead.next());
      if (!page.has_value()) {
        ahead.Stop();
      } else if (ModuleOf(*page) != module || PageToTake(*page) == nullptr) {
        ahead.Skip();
        if (++skipped == kMostSkipped) return true;
      } else {
        AddKnownBlocks(*page);
        ahead.NoteTaken();
        return true;
      }
    }
  }
  return false;
}

// One that blocks of the page that was asked for last lead to, and have led to before.
bool ProgramCode::TakeLinkedPage() {
  if (asked_page_ == nullptr) return false;
  const absl::Span<const Link> links = asked_page_->image.links();
  while (linked_pages_ < kLinkedPages && next_link_ < links.size()) {
    const uint64_t pc = links[next_link_++].guest_target;
    const TranslationMemo::KnownPage* const page = PageToTake(pc);
    if (page == nullptr || page->image.Find(pc) == nullptr) continue;
    AddKnownBlocks(pc);
    ++linked_pages_;
    return true;
  }
  return false;
}

// The kernel changes at any time what the functions of the vdso read.
bool ProgramCode::WatchesLoads(uint64_t guest_pc) const {
  const MapRegion* const region = source_.LookUp(guest_pc);
  return exclusive_ && region != nullptr && region->name == "[vdso]";
}

TranslateRequest ProgramCode::RequestFor(uint64_t guest_pc, uint64_t host) {
  TranslateRequest request = {
      .guest_pc = guest_pc,
      .bytes = source_.At(guest_pc),
      .host_address = host,
      .flavour = options_.flavour,
      .stubs = cache_.StubsFor(guest_pc),
      .max_instructions = options_.trials.block_instructions,
      .operations = options_.flavour == Flavour::kRecord,
      .order = options_.order,
      .masks = HostHasMasks(),
  };
  if (options_.flavour == Flavour::kRecord) request.left_to_agent = needs_side_effect_;
  request.exclusive = exclusive_;
  request.watches_loads = WatchesLoads(guest_pc);
  request.failing_checks = options_.trials.failing_checks;
  request.may_change = source_.MayChange(guest_pc);
  request.by_any_store = changing_.contains(PageOf(guest_pc));
  if (!request.may_change) request.code_at = lasting_at_;
  // Each access is much longer then.
  constexpr uint32_t kMostOrdered = 16;
  if (options_.order > MemoryModel::kFence) {
    request.max_instructions = std::min(request.max_instructions, kMostOrdered);
  }
  return request;
}

// With a check of the code in front if it may change.
absl::StatusOr<TranslatedBlock> ProgramCode::TranslateChecked(TranslateRequest request) const {
  auto block = hindsight::Translate(request);
  if (!block.ok() || !source_.MayChange(request.guest_pc)) return block;
  const uint64_t bytes = block->guest_bytes;
  if (bytes == 0) return absl::NotFoundError("no instruction");
  const CodeCheck check = {.guest_pc = request.guest_pc,
                           .bytes = request.bytes.first(bytes),
                           .host = request.host_address,
                           .stubs = request.stubs,
                           .view = ChecksView(),
                           .flags_dead = block->side.front().flags_exact == 0};
  const std::vector<uint8_t> code = EmitCodeCheck(check);
  const auto size = static_cast<uint32_t>(code.size());
  if (!MoveBlock(size, &*block)) {
    request.host_address += size;
    block = hindsight::Translate(request);
    if (!block.ok()) return block;
    CHECK(block->guest_bytes == bytes);
  }
  PrependCodeCheck(check, code, &*block);
  return block;
}

std::unique_ptr<Translation> ProgramCode::MakeBlock(uint64_t guest_pc, bool alone) {
  const uint64_t host = cache_.PlaceFor(guest_pc, kLargestBlock);
  if (host == 0 || source_.At(guest_pc).empty()) return nullptr;
  TranslateRequest request = RequestFor(guest_pc, host);
  if (alone) {
    request.max_instructions = 1;
    request.trust_view = true;
  }
  needs_ = {};
  auto block = TranslateChecked(request);
  if (!block.ok() || block->code.size() + 2 * kHostAlignment > kLargestBlock) return nullptr;
  auto made = MakeTranslation(guest_pc, host, *block, bytes_at_, memo_->pool());
  cache_.Use(guest_pc, made->block.code.size());
  made->exits_host = cache_.UseForExits(guest_pc, made->block.exits.size());
  made->checks_code = source_.MayChange(guest_pc);
  made->needs = needs_;
  // A block that ends at what is no instruction depends on bytes that it does not tell of.
  made->lasting = !made->checks_code && block->guest_bytes != 0 && block->refusal.empty();
  return made;
}

uint64_t ProgramCode::TranslateOne(uint64_t guest_pc) {
  source_.ForgetWritable();
  const auto known = ones_.find(guest_pc);
  if (known != ones_.end() && Fits(*known->second, bytes_at_)) return known->second->host;
  std::unique_ptr<Translation> one = MakeBlock(guest_pc, /*alone=*/true);
  if (one == nullptr) return 0;
  const Translation* made = ones_[guest_pc] = memo_->Add(nullptr, std::move(one));
  cache_.AddApart(made);
  return made->host;
}

uint64_t ProgramCode::TranslateIndirectTo(uint64_t guest_pc) {
  const uint64_t key = IndirectTo(guest_pc);
  if (const uint64_t known = cache_.FindWay(key)) return known;
  const uint64_t host = cache_.PlaceFor(guest_pc, kLargestBlock);
  if (host == 0) return 0;
  const auto block = hindsight::TranslateIndirectTo(
      {.guest_pc = guest_pc, .host_address = host, .stubs = cache_.StubsFor(guest_pc)});
  if (!block.ok()) return 0;
  cache_.Use(guest_pc, block->code.size());
  cache_.AddWay(
      key, memo_->Add(nullptr, MakeTranslation(guest_pc, host, *block, bytes_at_, memo_->pool())));
  return host;
}

// It can be executed when this returns.
void ProgramCode::Add(const Translation* translation) {
  Publish(*translation);
  cache_.Add(translation);
  if (!CanBeGuarded(*translation)) return;
  guard_.Add(PageOf(translation->guest_pc), translation->host, ChecksView());
}

bool ProgramCode::CanBeGuarded(const Translation& translation) const {
  const uint64_t start = translation.guest_pc, last = start + translation.block.guest_bytes - 1;
  return translation.checks_code && PageOf(start) == PageOf(last);
}

bool ProgramCode::GuardSettledPage() {
  const std::optional<uint64_t> page = guard_.Due();
  if (!page.has_value()) return false;
  const MapRegion* const region = source_.LookUp(*page);
  // Others may store to other mappings of what is shared. What is a file's cannot be watched.
  if (region == nullptr || region->shared || region->inode != 0) return true;
  if (!guard_.Protect(*page, *region)) return true;
  source_.ForgetWritable();
  std::vector<uint64_t> blocks;
  cache_.ForEachBlockIn(*page, [&](const Translation& block) {
    if (CanBeGuarded(block) && PageOf(block.guest_pc) == *page && Fits(block, bytes_at_)) {
      blocks.push_back(block.host);
    }
  });
  guard_.Guard(*page, blocks, ChecksView());
  return true;
}

// Pages that a block checks itself a thread imports when the check fails.
void ProgramCode::Publish(const Translation& translation) {
  if (options_.executed_pages == nullptr) return;
  options_.executed_pages->Need(translation.needs);
  const uint64_t last = translation.guest_pc + translation.block.guest_bytes - 1;
  PublishPages(translation.checks_code ? PageOf(last) + kPageBytes : translation.guest_pc, last);
}

// With the next one.
void ProgramCode::PublishPages(uint64_t first_byte, uint64_t last_byte) {
  const uint64_t first = PageOf(first_byte), last = PageOf(last_byte);
  for (uint64_t page = first; page <= last + kPageBytes; page += kPageBytes) {
    const bool executed = page <= last;
    if (executed_.contains(page) || (!executed && fetched_.contains(page))) continue;
    (executed ? executed_ : fetched_).insert(page);
    std::array<uint8_t, kPageBytes> bytes;
    if (source_.ReadPage(page, absl::MakeSpan(bytes))) {
      options_.executed_pages->Publish(page, bytes, executed);
    }
  }
}

size_t ProgramCode::CostOf(Source source) {
  return source == Source::kTranslator ? kTranslationCost : source == Source::kMemo ? 1 : 0;
}

ProgramCode::Source ProgramCode::AddBlock(uint64_t guest_pc) {
  const absl::Span<const uint8_t> bytes = source_.At(guest_pc);
  if (bytes.empty()) return Source::kNone;
  AddKnownBlocks(guest_pc);
  if (cache_.Find(guest_pc) != 0) return Source::kTranslator;  // it takes as long
  Source source = Source::kMemo;
  const Translation* translation =
      memo_->Find(ModuleOf(guest_pc), guest_pc, bytes_at_, source_.MayChange(guest_pc));
  if (translation == nullptr) {
    source = Source::kTranslator;

    std::unique_ptr<Translation> made = MakeBlock(guest_pc, /*alone=*/false);
    if (made == nullptr) return Source::kNone;
    translation = memo_->Add(ModuleOf(guest_pc), std::move(made));
  }
  const StoredBlock& block = translation->block;
  for (const Link& link : block.links) reachable_.push_back(link.guest_target);
  if (EndsInCall(bytes.first(block.guest_bytes))) {
    reachable_.push_back(guest_pc + block.guest_bytes);
  }
  Add(translation);
  return source;
}

// What others have executed in this page.
void ProgramCode::AddKnownBlocks(uint64_t guest_pc) {
  if (!source_.IsConstant(guest_pc) || !looked_up_.insert(PageOf(guest_pc)).second) return;
  TranslationMemo::Module* const module = ModuleOf(guest_pc);
  const TranslationMemo::KnownPage* const page = memo_->KnownPageOf(module, guest_pc);
  const bool taken = page != nullptr && AddKnownPage(*page);
  for (const Translation* translation : memo_->InPage(module, guest_pc, /*stored=*/!taken)) {
    if (cache_.Find(translation->guest_pc) != 0 || !Fits(*translation, bytes_at_)) continue;
    Add(translation);
  }
}

bool ProgramCode::AddKnownPage(const TranslationMemo::KnownPage& page) {
  if (!page.image.Fits(bytes_at_)) return false;
  if (options_.executed_pages != nullptr) {
    PublishPages(page.image.page() * kPageBytes, page.image.last_byte());
    options_.executed_pages->Need(page.image.needs());
  }
  return cache_.AddPage(&page);
}

void ProgramCode::NoteChange() {
  __atomic_fetch_add(&file_->control()->epoch, 1, __ATOMIC_SEQ_CST);
}

void ProgramCode::Invalidate(uint64_t start, uint64_t end) {
  StopAhead();
  guard_.Forget(start, end);
  looked_up_.clear();
  const bool known = source_.Forget(start, end);
  if (options_.executed_pages != nullptr) {
    options_.executed_pages->Withdraw(start, end, ReadTsc());
    const auto gone = [=](uint64_t page) { return page + kPageBytes > start && page < end; };
    absl::erase_if(executed_, gone);
    absl::erase_if(fetched_, gone);
  }
  if (cache_.Invalidate(start, end) || known) NoteChange();
}

void ProgramCode::InvalidateAll() {
  cache_.Invalidate(0, ~uint64_t{0} - kPageBytes);
  NoteChange();
}

void ProgramCode::ShareMemory() {
  if (!exclusive_) return;
  exclusive_ = false;
  StopAhead();
  read_ahead_.clear();
  looked_up_.clear();
  ones_.clear();
  guard_.Forget(0, ~uint64_t{0});
  // What is executed is the same; modules are told of anew.
  source_.Forget(0, ~uint64_t{0});
  cache_.ForgetAll();
  cache_.WriteStubs(/*exclusive=*/false);
  NoteChange();
  __atomic_store_n(&file_->control()->exclusive, 0, __ATOMIC_RELEASE);
}

void ProgramCode::PublishRange(uint64_t start, uint64_t end) {
  ControlBlock* control = file_->control();
  const uint32_t count = control->executed_range_count;
  for (uint32_t i = 0; i < count && i < kMaxExecutedRanges; ++i) {
    const ExecutedRange& range = control->executed_ranges[i];
    if (range.start <= start && end <= range.end) return;
  }
  if (count >= kMaxExecutedRanges) return;  // the agent takes it that not all are told
  control->executed_ranges[count] = {start, end};
  __atomic_store_n(&control->executed_range_count, count + 1, __ATOMIC_RELEASE);
}

}  // namespace hindsight
