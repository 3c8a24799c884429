// How records act on the state, and what is said where replay and record differ.

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "emulator/cpu/register_patch.h"
#include "keyframes/replay/replayer.h"
#include "keyframes/state/thread_state.h"

namespace hindsight {
namespace {

// Differing registers named in a message; more would hide the first.
constexpr int kMaxRegistersNamed = 6;

constexpr uint64_t kLinesPerPage = kPageBytes / kLineBytes;

// The part of [a, a + a_size) that lies in [b, b + b_size), as offset into a; empty: size 0.
struct Overlap {
  uint64_t offset = 0;
  uint64_t size = 0;
};

Overlap Intersect(uint64_t a, uint64_t a_size, uint64_t b, uint64_t b_size) {
  const uint64_t first = std::max(a, b);
  const uint64_t last = std::min(a + (a_size - 1), b + (b_size - 1));
  if (a_size == 0 || b_size == 0 || first > last) return {};
  return {first - a, last - first + 1};
}

}  // namespace

WatchedPart WatchedIn(uint64_t page, const Watchpoint& watchpoint) {
  const Overlap part = Intersect(page, kPageBytes, watchpoint.address, watchpoint.length);
  return {part.offset, part.size};
}

std::optional<uint64_t> FirstNews(const WatchedImport& import, const Watchpoint& watchpoint,
                                  absl::string_view before) {
  const uint64_t offset = WatchedIn(import.page, watchpoint).offset;
  for (uint64_t i = 0; i < std::min(import.bytes.size(), before.size()); ++i) {
    const bool known = (import.known_mask >> ((offset + i) / kLineBytes) & 1) != 0;
    if (!known && import.bytes[i] != before[i]) return i;
  }
  return std::nullopt;
}

const Record* SegmentReplay::NextRecord() const {
  return cursor_ < segment_->records().size() ? &segment_->records()[cursor_] : nullptr;
}

const SideEffect* SegmentReplay::side_effect() const {
  const Record* next = NextRecord();
  if (next == nullptr || next->count != count()) return nullptr;
  return std::get_if<SideEffect>(&next->body);
}

const Discontinuity* SegmentReplay::discontinuity() const {
  const Record* next = NextRecord();
  if (next == nullptr || next->count != count()) return nullptr;
  return std::get_if<Discontinuity>(&next->body);
}

bool SegmentReplay::discontinuity_is_signal() const {
  const Discontinuity* next = discontinuity();
  return next != nullptr && next->kind == DiscontinuityKind::kSignal;
}

bool SegmentReplay::TransitionIsNext() const {
  return side_effect() != nullptr || discontinuity() != nullptr;
}

// Applies the records of the present count up to its transition.
absl::Status SegmentReplay::Settle() {
  for (const Record* next = NextRecord(); next != nullptr && next->count <= count();
       ++cursor_, next = NextRecord()) {
    if (next->count < count()) {
      return Diverged(absl::StrCat("a record of count ", next->count, " comes too late"));
    }
    if (TransitionIsNext()) break;
    if (const auto* page = std::get_if<PageImport>(&next->body)) {
      RETURN_IF_ERROR(ApplyPage(*page));
    } else if (const auto* line = std::get_if<LineImport>(&next->body)) {
      RETURN_IF_ERROR(ApplyLine(*line));
    } else if (const auto* read = std::get_if<UncachedRead>(&next->body)) {
      RETURN_IF_ERROR(ApplyUncached(*read));
    } else if (const auto* hash = std::get_if<RegisterHash>(&next->body)) {
      RETURN_IF_ERROR(CheckHash(hash->hash));
    } else if (const auto* end = std::get_if<SegmentEnd>(&next->body)) {
      RETURN_IF_ERROR(CheckEnd(end->registers));
    }
  }
  return absl::OkStatus();
}

absl::Status SegmentReplay::ApplyPage(const PageImport& import) {
  uint8_t* const bytes =
      import.address % kPageBytes == 0 ? cpu_->HostPage(import.address) : nullptr;
  if (bytes == nullptr || import.lines.size() != std::popcount(import.line_mask) * kLineBytes) {
    return Diverged(absl::StrFormat("a damaged page import (address 0x%x)", import.address));
  }
  const bool held = cpu_->rights(import.address) != PageRights::kNone;
  if (!held && !import.first) {
    return Diverged(
        absl::StrFormat("lines of page 0x%x are imported, but the segment never imported the page",
                        import.address));
  }
  const uint64_t held_back = holding_back_ ? import.known_mask : 0;
  if (held_back != 0 && !held) return absl::OkStatus();  // others have the page
  std::array<uint8_t, kPageBytes> after = {};
  if (!import.first) std::memcpy(after.data(), bytes, kPageBytes);
  if (import.module >= 0) {
    auto module = trace_->ModuleBytes(import.module);
    if (!module.ok()) {
      return Diverged(absl::StrFormat("page 0x%x needs bytes of a module: %s", import.address,
                                      std::string(module.status().message())));
    }
    after.fill(0);
    if (import.module_offset < module->size()) {
      const absl::Span<const uint8_t> part = module->subspan(import.module_offset, kPageBytes);
      std::memcpy(after.data(), part.data(), part.size());
    }
  }
  const uint8_t* line = import.lines.data();
  for (uint64_t i = 0; i < kLinesPerPage; ++i) {
    if ((import.line_mask >> i & 1) == 0) continue;
    std::memcpy(after.data() + i * kLineBytes, line, kLineBytes);
    line += kLineBytes;
  }
  if (held) {
    for (uint64_t i = 0; i < kLinesPerPage; ++i) {
      if ((held_back >> i & 1) == 0) continue;
      std::memcpy(after.data() + i * kLineBytes, bytes + i * kLineBytes, kLineBytes);
    }
    ChangeBytes(import.address, after, import.known_mask);
    return absl::OkStatus();
  }
  // A page that leaves the view and comes back is mostly the same: its translations stay good.
  if (std::memcmp(bytes, after.data(), kPageBytes) != 0) {
    std::memcpy(bytes, after.data(), kPageBytes);
    cpu_->ContentsChanged(import.address);
  }
  checkpoints_->AddPage(import.address);
  NoteWatchedPage(import.address, import.known_mask);
  return absl::OkStatus();
}

absl::Status SegmentReplay::ApplyLine(const LineImport& import) {
  const uint64_t page = import.address & ~(kPageBytes - 1);
  if (import.address % kLineBytes != 0 || import.bytes.size() != kLineBytes ||
      cpu_->HostPage(page) == nullptr) {
    return Diverged(absl::StrFormat("a damaged line import (address 0x%x)", import.address));
  }
  ChangeBytes(import.address, import.bytes);
  return absl::OkStatus();
}

// The value is put where the load will look for it.
absl::Status SegmentReplay::ApplyUncached(const UncachedRead& read) {
  const uint64_t last_page = (read.address + read.size) & ~(kPageBytes - 1);
  if (read.size > sizeof(read.value) || cpu_->HostPage(last_page) == nullptr) {
    return Diverged(absl::StrFormat("a damaged uncached read (address 0x%x)", read.address));
  }
  std::array<uint8_t, sizeof(read.value)> bytes;
  std::memcpy(bytes.data(), &read.value, sizeof(read.value));
  const uint64_t in_page = std::min<uint64_t>(read.size, kPageBytes - read.address % kPageBytes);
  const absl::Span<const uint8_t> value(bytes.data(), read.size);
  ChangeBytes(read.address, value.first(in_page));
  if (in_page < read.size) ChangeBytes(read.address + in_page, value.subspan(in_page));
  return absl::OkStatus();
}

// `bytes`, which lie in one page, become the contents at `address`. A page not held becomes held.
void SegmentReplay::ChangeBytes(uint64_t address, absl::Span<const uint8_t> bytes,
                                uint64_t known_mask) {
  const uint64_t page = address & ~(kPageBytes - 1);
  uint8_t* const host = cpu_->HostPage(page);
  if (cpu_->rights(page) == PageRights::kNone) {
    std::memset(host, 0, kPageBytes);
    std::memcpy(host + (address - page), bytes.data(), bytes.size());
    checkpoints_->AddPage(page);
    cpu_->ContentsChanged(page);
    return;
  }
  uint8_t* const target = host + (address - page);
  if (std::memcmp(target, bytes.data(), bytes.size()) == 0) return;
  checkpoints_->BeforeChange(page);
  NoteWatchedChange(address, target, bytes, known_mask);
  std::memcpy(target, bytes.data(), bytes.size());
  cpu_->ContentsChanged(page);
}

void SegmentReplay::NoteWatchedChange(uint64_t address, const uint8_t* before,
                                      absl::Span<const uint8_t> after, uint64_t known_mask) {
  if (import_hit_ || count() == segment_->info().first_count) return;
  for (size_t i = 0; i < watchpoints_.size(); ++i) {
    const Watchpoint& watch = watchpoints_[i];
    if (!watch.on_write) continue;
    const Overlap watched = Intersect(address, after.size(), watch.address, watch.length);
    for (uint64_t k = watched.offset; k < watched.offset + watched.size; ++k) {
      if (before[k] == after[k]) continue;
      if ((known_mask >> ((address + k) % kPageBytes / kLineBytes) & 1) != 0) continue;
      watch_hit_ = {count() - 1, i, address + k};
      import_hit_ = true;
      return;
    }
  }
}

void SegmentReplay::NoteWatchedPage(uint64_t page, uint64_t known_mask) {
  for (size_t i = 0; i < watchpoints_.size(); ++i) {
    const WatchedPart part = WatchedIn(page, watchpoints_[i]);
    if (!watchpoints_[i].on_write || part.size == 0) continue;
    const auto* bytes = reinterpret_cast<const char*>(cpu_->HostPage(page)) + part.offset;
    unknown_imports_.push_back({count(), i, page, std::string(bytes, part.size), known_mask});
  }
}

absl::Status SegmentReplay::ApplyTransition() {
  const RegisterPatch* patch = nullptr;
  uint64_t hash = 0;
  if (const SideEffect* effect = side_effect()) {
    patch = &effect->registers;
    hash = effect->register_hash;
  } else {
    patch = &discontinuity()->registers;
    hash = discontinuity()->register_hash;
  }
  if (hash != 0) RETURN_IF_ERROR(CheckHash(hash));
  RegisterFile registers = cpu_->registers();
  if (patch->index.size() != patch->value.size() || !Apply(*patch, &registers)) {
    return Diverged("a damaged register patch");
  }
  cpu_->SetRegisters(registers);
  cpu_->set_count(count() + 1);
  ++cursor_;
  ++states_replayed_;
  effort_ += kTransitionStates;
  return Settle();
}

absl::Status SegmentReplay::CheckHash(uint64_t expected) {
  ++checks_;
  const uint64_t actual = Hash(cpu_->registers());
  if (actual == expected) return absl::OkStatus();
  return Diverged(
      absl::StrFormat("the registers hash to %016x, recorded was %016x", actual, expected));
}

absl::Status SegmentReplay::CheckEnd(const RegisterWords& recorded) {
  ++checks_;
  RegisterFile end;
  if (!FromWords(recorded, &end)) return Diverged("a damaged register file at the end");
  if (cpu_->registers() == end) return absl::OkStatus();
  const RegisterWords actual = ToWords(cpu_->registers()), expected = ToWords(end);
  std::string text = "at the end of the segment ";
  int named = 0, differing = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    if (actual[i] == expected[i]) continue;
    ++differing;
    if (named == kMaxRegistersNamed) continue;
    absl::StrAppendFormat(&text, "%s%s is 0x%x (recorded 0x%x)", named == 0 ? "" : ", ",
                          RegisterWordName(i), actual[i], expected[i]);
    ++named;
  }
  if (differing > named) absl::StrAppend(&text, " and ", differing - named, " more");
  return Diverged(text);
}

bool SegmentReplay::OnMissing(uint64_t page, Access access) {
  refused_page_ = page;
  return false;
}

bool SegmentReplay::OnFirstWrite(uint64_t page) {
  checkpoints_->OnFirstWrite(page);
  return true;
}

absl::Status SegmentReplay::Diverged(absl::string_view what) {
  broken_ = true;
  const SegmentInfo& info = segment_->info();
  std::string position;
  if (auto thread = ThreadState::Create(trace_, info.thread); thread.ok()) {
    position = absl::StrCat(", position ", ToString(thread->PositionAt(count())));
  }
  return absl::DataLossError(absl::StrFormat(
      "%s: replay of thread %d, segment %d differs at count "
      "%d%s, pc 0x%x: %s",
      info.path, info.thread, info.number, count(), position, cpu_->pc(), std::string(what)));
}

absl::Status SegmentReplay::DivergedAtFault(uint64_t fault_address) {
  if (refused_page_.has_value()) {
    return Diverged(absl::StrFormat(
        "the instruction touches page 0x%x, which the segment has not imported", *refused_page_));
  }
  return Diverged(absl::StrFormat("the instruction faults (address 0x%x)", fault_address));
}

absl::Status SegmentReplay::DivergedAtSpecial() {
  const std::optional<Instruction> next = cpu_->next();
  const HostFeatures lacking = cpu_->features_lacking();
  if (!lacking.empty() && next.has_value()) {
    broken_ = true;
    // A trace from another vendor's processor names that vendor, not ours.
    std::vector<std::string> names =
        MissingFeatures(trace_->manifest().required_features, HostFeatures::OfThisHost());
    if (names.empty()) names = lacking.Names();
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s: thread %d cannot be replayed beyond count %d: %s at pc 0x%x needs %s, which this host "
        "lacks",
        segment_->info().path, segment_->info().thread, count(), MnemonicName(next->mnemonic),
        cpu_->pc(), absl::StrJoin(names, ", ")));
  }
  return Diverged(absl::StrCat("the trace has no side effect for the instruction ",
                               next.has_value() ? MnemonicName(next->mnemonic) : "(unreadable)"));
}

}  // namespace hindsight
