#include "keyframes/replay/record_applier.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "emulator/cpu/register_patch.h"
#include "tracefmt/manifest.h"

namespace hindsight {
namespace {

// Differing registers named in a message; more would hide the first.
constexpr int kMaxRegistersNamed = 6;

constexpr uint64_t kLinesPerPage = kPageBytes / kLineBytes;

}  // namespace

void RecordApplier::Begin(const Segment* segment) {
  segment_ = segment;
  history_ = std::make_unique<PageHistory>(segment->records());
  cursor_ = 0;
}

const Record* RecordApplier::Next() const {
  return cursor_ < segment_->records().size() ? &segment_->records()[cursor_] : nullptr;
}

const SideEffect* RecordApplier::side_effect() const {
  const Record* next = Next();
  if (next == nullptr || next->count != cpu_->count()) return nullptr;
  return std::get_if<SideEffect>(&next->body);
}

const Discontinuity* RecordApplier::discontinuity() const {
  const Record* next = Next();
  if (next == nullptr || next->count != cpu_->count()) return nullptr;
  return std::get_if<Discontinuity>(&next->body);
}

bool RecordApplier::SignalIsNext() const {
  const Discontinuity* next = discontinuity();
  return next != nullptr && next->kind == DiscontinuityKind::kSignal;
}

uint64_t RecordApplier::NextCount() const {
  const Record* next = Next();
  return next == nullptr ? segment_->end_count() : std::min(next->count, segment_->end_count());
}

uint64_t RecordApplier::RecordsBefore(uint64_t target) const {
  const auto next = segment_->records().begin() + static_cast<ptrdiff_t>(cursor_);
  const auto end = std::partition_point(
      next, segment_->records().end(), [&](const Record& record) { return record.count < target; });
  return static_cast<uint64_t>(end - next);
}

absl::Status RecordApplier::Settle(TurnImports imports) {
  const uint64_t count = cpu_->count();
  for (const Record* next = Next(); next != nullptr && next->count <= count;
       ++cursor_, next = Next()) {
    if (next->count < count) {
      return Differs(absl::StrCat("a record of count ", next->count, " comes too late"));
    }
    if (TransitionIsNext()) break;
    if (const auto* page = std::get_if<PageImport>(&next->body)) {
      RETURN_IF_ERROR(ApplyPage(*page, imports));
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

absl::Status RecordApplier::ApplyPage(const PageImport& import, TurnImports imports) {
  uint8_t* const bytes =
      import.address % kPageBytes == 0 ? cpu_->HostPage(import.address) : nullptr;
  if (bytes == nullptr || import.lines.size() != std::popcount(import.line_mask) * kLineBytes) {
    return Differs(absl::StrFormat("a damaged page import (address 0x%x)", import.address));
  }
  const bool held = cpu_->rights(import.address) != PageRights::kNone;
  // Where threads ran at the same time, it is as memory was when the turn began, and so is all that
  // was imported there afterwards.
  const bool waits = imports == TurnImports::kHoldBack && RunsThreadsAtOnce(trace_->manifest());
  if (!held && waits) return absl::OkStatus();
  if (!held && !import.first) {
    return Differs(
        absl::StrFormat("lines of page 0x%x are imported, but the segment never imported the page",
                        import.address));
  }
  const uint64_t held_back = imports == TurnImports::kHoldBack ? import.known_mask : 0;
  if (held_back != 0 && !held) return absl::OkStatus();  // others have the page
  std::array<uint8_t, kPageBytes> after = {};
  if (!import.first) std::memcpy(after.data(), bytes, kPageBytes);
  if (import.module >= 0) {
    auto module = trace_->ModuleBytes(import.module);
    if (!module.ok()) {
      return Differs(absl::StrFormat("page 0x%x needs bytes of a module: %s", import.address,
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
    ChangeBytes(import.address, after, KnownElsewhere(import));
    return absl::OkStatus();
  }
  // A page that leaves the view and comes back is mostly the same: its translations stay good.
  if (std::memcmp(bytes, after.data(), kPageBytes) != 0) {
    std::memcpy(bytes, after.data(), kPageBytes);
    cpu_->ContentsChanged(import.address);
  }
  checkpoints_->AddPage(import.address);
  watched_->NotePage(cpu_->count(), import.address, bytes, KnownElsewhere(import));
  return absl::OkStatus();
}

bool RecordApplier::ImportUnlisted(uint64_t page) {
  const std::optional<PageImport> import = segment_->ImportOfUnlisted(cursor_, page);
  return import.has_value() && ApplyPage(*import, TurnImports::kApply).ok();
}

absl::Status RecordApplier::ApplyLine(const LineImport& import) {
  const uint64_t page = PageOf(import.address);
  if (import.address % kLineBytes != 0 || import.bytes.size() != kLineBytes ||
      cpu_->HostPage(page) == nullptr) {
    return Differs(absl::StrFormat("a damaged line import (address 0x%x)", import.address));
  }
  ChangeBytes(import.address, import.bytes);
  return absl::OkStatus();
}

// The value is put where the load will look for it.
absl::Status RecordApplier::ApplyUncached(const UncachedRead& read) {
  const uint64_t last_page = PageOf(read.address + read.size);
  if (read.size > sizeof(read.value) || cpu_->HostPage(last_page) == nullptr) {
    return Differs(absl::StrFormat("a damaged uncached read (address 0x%x)", read.address));
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
void RecordApplier::ChangeBytes(uint64_t address, absl::Span<const uint8_t> bytes,
                                uint64_t known_mask) {
  const uint64_t page = PageOf(address);
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
  if (cpu_->count() != segment_->info().first_count) {
    watched_->NoteChange(cpu_->count(), address, target, bytes, known_mask);
  }
  std::memcpy(target, bytes.data(), bytes.size());
  cpu_->ContentsChanged(page);
}

absl::Status RecordApplier::ApplyTransition(TurnImports imports) {
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
    return Differs("a damaged register patch");
  }
  cpu_->SetRegisters(registers);
  cpu_->set_count(cpu_->count() + 1);
  ++cursor_;
  return Settle(imports);
}

absl::Status RecordApplier::CheckHash(uint64_t expected) {
  ++checks_;
  const uint64_t actual = Hash(cpu_->registers());
  if (actual == expected) return absl::OkStatus();
  return Differs(
      absl::StrFormat("the registers hash to %016x, recorded was %016x", actual, expected));
}

absl::Status RecordApplier::CheckEnd(const RegisterWords& recorded) {
  ++checks_;
  RegisterFile end;
  if (!FromWords(recorded, &end)) return Differs("a damaged register file at the end");
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
  return Differs(text);
}

}  // namespace hindsight
