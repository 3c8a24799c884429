#include "tracefmt/record_columns.h"

#include <bit>
#include <cstring>

#include "base/check.h"
#include "tracefmt/storage/message.h"

namespace hindsight {
namespace {

void AppendBytes(absl::Span<const uint8_t> bytes, std::vector<uint8_t>* out) {
  out->insert(out->end(), bytes.begin(), bytes.end());
}

// Seven bits in each byte, low ones first; the top bit says that more follow.
void AppendVarint(uint64_t value, std::vector<uint8_t>* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<uint8_t>(value | 0x80));
  out->push_back(static_cast<uint8_t>(value));
}

capnp::Data::Reader AsData(const std::vector<uint8_t>& bytes) {
  return capnp::Data::Reader(bytes.data(), bytes.size());
}

}  // namespace

void RecordColumns::Add(const Record& record) {
  CHECK(record.count >= last_count_ && Fits(record.count));
  count_deltas_.push_back(static_cast<uint32_t>(record.count - last_count_));
  last_count_ = record.count;
  const RecordKind kind =
      std::visit([this](const auto& body) { return AddBody(body); }, record.body);
  kinds_.push_back(static_cast<uint8_t>(kind));
  raw_bytes_ += sizeof(uint32_t) + 1;
}

RecordKind RecordColumns::AddBody(const PageImport& body) {
  CHECK(body.lines.size() == std::popcount(body.line_mask) * kLineBytes);
  CHECK(body.shown.size() <= UINT8_MAX);
  const bool has_module = body.module >= 0;
  pages_.addresses.push_back(body.address);
  pages_.line_masks.push_back(body.line_mask);
  pages_.flags.push_back(static_cast<uint8_t>(
      (body.first ? 1 : 0) | (has_module ? 2 : 0) | (body.known_mask != 0 ? 4 : 0) |
      (body.shown.empty() ? 0 : 8) | (body.turn != PageImport::kFirstTurn ? 16 : 0)));
  if (has_module) {
    pages_.modules.push_back(body.module);
    pages_.module_offsets.push_back(body.module_offset);
  }
  if (body.known_mask != 0) pages_.known_masks.push_back(body.known_mask);
  if (!body.shown.empty()) pages_.shown_counts.push_back(static_cast<uint8_t>(body.shown.size()));
  for (const PageImport::Shown& shown : body.shown) {
    pages_.shown_by.push_back(shown.thread);
    pages_.shown_masks.push_back(shown.lines);
  }
  if (body.turn != PageImport::kFirstTurn) pages_.turns.push_back(body.turn);
  AppendBytes(body.lines, &pages_.bytes);
  raw_bytes_ += 38 + body.lines.size() + 12 * body.shown.size();
  return RecordKind::kPageImport;
}

RecordKind RecordColumns::AddBody(const LineImport& body) {
  CHECK(body.bytes.size() == kLineBytes);
  lines_.addresses.push_back(body.address);
  lines_.flags.push_back(body.code ? 1 : 0);
  AppendBytes(body.bytes, &lines_.bytes);
  raw_bytes_ += 9 + kLineBytes;
  return RecordKind::kLineImport;
}

RecordKind RecordColumns::AddBody(const UncachedRead& body) {
  uncached_reads_.addresses.push_back(body.address);
  uncached_reads_.sizes.push_back(body.size);
  uncached_reads_.values.push_back(body.value);
  raw_bytes_ += 17;
  return RecordKind::kUncachedRead;
}

RecordKind RecordColumns::AddBody(const SideEffect& body) {
  side_effects_.kinds.push_back(static_cast<uint16_t>(body.kind));
  side_effects_.sequences.push_back(body.sequence);
  side_effects_.register_hashes.push_back(body.register_hash);
  side_effects_.flags.push_back(body.retired ? 0 : 1);
  raw_bytes_ += 19 + side_effects_.patches.Add(body.registers);
  return RecordKind::kSideEffect;
}

RecordKind RecordColumns::AddBody(const Discontinuity& body) {
  discontinuities_.kinds.push_back(static_cast<uint16_t>(body.kind));
  discontinuities_.sequences.push_back(body.sequence);
  discontinuities_.register_hashes.push_back(body.register_hash);
  discontinuities_.signals.push_back(body.signal);
  discontinuities_.siginfos.push_back(body.siginfo);
  raw_bytes_ += 30 + body.siginfo.size() + discontinuities_.patches.Add(body.registers);
  return RecordKind::kDiscontinuity;
}

RecordKind RecordColumns::AddBody(const RegisterHash& body) {
  register_hashes_.push_back(body.hash);
  raw_bytes_ += sizeof(uint64_t);
  return RecordKind::kRegisterHash;
}

RecordKind RecordColumns::AddBody(const SegmentEnd& body) {
  end_registers_ = body.registers;
  raw_bytes_ += body.registers.size() * sizeof(uint64_t);
  return RecordKind::kSegmentEnd;
}

RecordKind RecordColumns::AddBody(const Gap& body) {
  gap_reason_ = body.reason;
  raw_bytes_ += body.reason.size();
  return RecordKind::kGap;
}

RecordKind RecordColumns::AddBody(const OrderRun& body) {
  CHECK(!body.counts.empty() && body.counts.size() <= UINT32_MAX);
  const size_t before = order_runs_.counts.size();
  order_runs_.first_sequences.push_back(body.first_sequence);
  order_runs_.sizes.push_back(static_cast<uint32_t>(body.counts.size()));
  // The first one back from the record's count, the others forward from one to the next.
  AppendVarint(last_count_ - body.counts[0], &order_runs_.counts);
  for (size_t i = 1; i < body.counts.size(); ++i) {
    AppendVarint(body.counts[i] - body.counts[i - 1], &order_runs_.counts);
  }
  order_runs_.total += body.counts.size();
  raw_bytes_ += 12 + order_runs_.counts.size() - before;
  return RecordKind::kOrderRun;
}

RecordKind RecordColumns::AddBody(const PageLeft& body) {
  left_pages_.push_back(body.address);
  raw_bytes_ += sizeof(uint64_t);
  return RecordKind::kPageLeft;
}

RecordKind RecordColumns::AddBody(const ReferencedPage& body) {
  referenced_pages_.push_back(body.address);
  raw_bytes_ += sizeof(uint64_t);
  return RecordKind::kReferencedPage;
}

RecordKind RecordColumns::AddBody(const MemoryHash& body) {
  memory_hashes_.addresses.push_back(body.address);
  memory_hashes_.sizes.push_back(body.size_bytes);
  memory_hashes_.hashes.push_back(body.hash);
  raw_bytes_ += 3 * sizeof(uint64_t);
  return RecordKind::kMemoryHash;
}

RecordKind RecordColumns::AddBody(const MappedRange& body) {
  const bool has_module = body.module >= 0;
  mapped_ranges_.addresses.push_back(body.address);
  mapped_ranges_.sizes.push_back(body.bytes);
  mapped_ranges_.flags.push_back(has_module ? 1 : 0);
  if (has_module) {
    mapped_ranges_.modules.push_back(body.module);
    mapped_ranges_.module_offsets.push_back(body.module_offset);
  }
  raw_bytes_ += 17 + (has_module ? 12 : 0);
  return RecordKind::kMappedRange;
}

RecordKind RecordColumns::AddBody(const UsedPages& body) {
  CHECK(body.pages.size() <= UINT32_MAX);
  const size_t before = used_pages_.pages.size();
  used_pages_.sizes.push_back(static_cast<uint32_t>(body.pages.size()));
  used_pages_.flags.push_back(body.complete ? 1 : 0);
  uint64_t last = 0;
  for (const uint64_t page : body.pages) {
    AppendVarint(page / kPageBytes - last, &used_pages_.pages);
    last = page / kPageBytes;
  }
  used_pages_.total += body.pages.size();
  raw_bytes_ += 5 + used_pages_.pages.size() - before;
  return RecordKind::kUsedPages;
}

size_t RecordColumns::Patches::Add(const RegisterPatch& patch) {
  CHECK(patch.index.size() == patch.value.size() && patch.index.size() <= UINT16_MAX);
  sizes.push_back(static_cast<uint16_t>(patch.index.size()));
  indices.insert(indices.end(), patch.index.begin(), patch.index.end());
  values.insert(values.end(), patch.value.begin(), patch.value.end());
  return 2 + 10 * patch.index.size();
}

void RecordColumns::Patches::Build(wire::PatchColumns::Builder columns) const {
  FillList(columns.initSizes(sizes.size()), sizes);
  FillList(columns.initIndices(indices.size()), indices);
  FillList(columns.initValues(values.size()), values);
}

void RecordColumns::Build(wire::RecordBlock::Builder block) const {
  block.setFirstRecord(first_record_);
  block.setFirstCount(first_count_);
  block.setKinds(AsData(kinds_));
  FillList(block.initCountDeltas(count_deltas_.size()), count_deltas_);
  BuildImports(block);
  BuildTransitions(block);
  BuildOrder(block);
  BuildNotes(block);
  BuildRanges(block);
  if (!end_registers_.empty()) {
    FillList(block.initEndRegisters(end_registers_.size()), end_registers_);
  }
  if (!gap_reason_.empty()) block.setGapReason(hindsight::AsData(gap_reason_));
}

void RecordColumns::BuildImports(wire::RecordBlock::Builder block) const {
  if (!pages_.addresses.empty()) {
    auto columns = block.initPages();
    FillList(columns.initAddresses(pages_.addresses.size()), pages_.addresses);
    columns.setFlags(AsData(pages_.flags));
    FillList(columns.initLineMasks(pages_.line_masks.size()), pages_.line_masks);
    FillList(columns.initModules(pages_.modules.size()), pages_.modules);
    FillList(columns.initModuleOffsets(pages_.module_offsets.size()), pages_.module_offsets);
    columns.setBytes(AsData(pages_.bytes));
    if (!pages_.known_masks.empty()) {
      FillList(columns.initKnownMasks(pages_.known_masks.size()), pages_.known_masks);
    }
    if (!pages_.shown_counts.empty()) {
      columns.setShownCounts(AsData(pages_.shown_counts));
      FillList(columns.initShownBy(pages_.shown_by.size()), pages_.shown_by);
      FillList(columns.initShownMasks(pages_.shown_masks.size()), pages_.shown_masks);
    }
    if (!pages_.turns.empty()) columns.setTurns(AsData(pages_.turns));
  }
  if (!lines_.addresses.empty()) {
    auto columns = block.initLines();
    FillList(columns.initAddresses(lines_.addresses.size()), lines_.addresses);
    columns.setFlags(AsData(lines_.flags));
    columns.setBytes(AsData(lines_.bytes));
  }
  if (!uncached_reads_.addresses.empty()) {
    auto columns = block.initUncachedReads();
    FillList(columns.initAddresses(uncached_reads_.addresses.size()), uncached_reads_.addresses);
    columns.setSizes(AsData(uncached_reads_.sizes));
    FillList(columns.initValues(uncached_reads_.values.size()), uncached_reads_.values);
  }
}

void RecordColumns::BuildTransitions(wire::RecordBlock::Builder block) const {
  if (const SideEffects& from = side_effects_; !from.kinds.empty()) {
    auto columns = block.initSideEffects();
    FillList(columns.initKinds(from.kinds.size()), from.kinds);
    FillList(columns.initSequences(from.sequences.size()), from.sequences);
    columns.setFlags(AsData(from.flags));
    FillList(columns.initRegisterHashes(from.register_hashes.size()), from.register_hashes);
    from.patches.Build(columns.initPatches());
  }
  if (const Discontinuities& from = discontinuities_; !from.kinds.empty()) {
    auto columns = block.initDiscontinuities();
    FillList(columns.initKinds(from.kinds.size()), from.kinds);
    FillList(columns.initSequences(from.sequences.size()), from.sequences);
    FillList(columns.initRegisterHashes(from.register_hashes.size()), from.register_hashes);
    FillList(columns.initSignals(from.signals.size()), from.signals);
    auto siginfos = columns.initSiginfos(from.siginfos.size());
    for (size_t i = 0; i < from.siginfos.size(); ++i) {
      siginfos.set(static_cast<uint32_t>(i), hindsight::AsData(from.siginfos[i]));
    }
    from.patches.Build(columns.initPatches());
  }
  if (!register_hashes_.empty()) {
    FillList(block.initRegisterHashes(register_hashes_.size()), register_hashes_);
  }
}

void RecordColumns::BuildOrder(wire::RecordBlock::Builder block) const {
  if (order_runs_.sizes.empty()) return;
  auto columns = block.initOrderRuns();
  FillList(columns.initFirstSequences(order_runs_.first_sequences.size()),
           order_runs_.first_sequences);
  FillList(columns.initSizes(order_runs_.sizes.size()), order_runs_.sizes);
  columns.setCounts(AsData(order_runs_.counts));
}

void RecordColumns::BuildNotes(wire::RecordBlock::Builder block) const {
  if (!left_pages_.empty()) FillList(block.initLeftPages(left_pages_.size()), left_pages_);
  if (const MemoryHashes& from = memory_hashes_; !from.hashes.empty()) {
    auto columns = block.initMemoryHashes();
    FillList(columns.initAddresses(from.addresses.size()), from.addresses);
    FillList(columns.initSizes(from.sizes.size()), from.sizes);
    FillList(columns.initHashes(from.hashes.size()), from.hashes);
  }
}

void RecordColumns::BuildRanges(wire::RecordBlock::Builder block) const {
  if (const MappedRanges& from = mapped_ranges_; !from.flags.empty()) {
    auto columns = block.initMappedRanges();
    FillList(columns.initAddresses(from.addresses.size()), from.addresses);
    FillList(columns.initSizes(from.sizes.size()), from.sizes);
    columns.setFlags(AsData(from.flags));
    FillList(columns.initModules(from.modules.size()), from.modules);
    FillList(columns.initModuleOffsets(from.module_offsets.size()), from.module_offsets);
  }
  if (const Used& from = used_pages_; !from.flags.empty()) {
    auto columns = block.initUsedPages();
    FillList(columns.initSizes(from.sizes.size()), from.sizes);
    columns.setFlags(AsData(from.flags));
    columns.setPages(AsData(from.pages));
  }
  if (!referenced_pages_.empty()) {
    FillList(block.initReferencedPages(referenced_pages_.size()), referenced_pages_);
  }
}

}  // namespace hindsight
