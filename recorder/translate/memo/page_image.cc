#include "recorder/translate/memo/page_image.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "recorder/translate/memo/seen_code.h"
#include "tracefmt/records.h"
#include "translator/host/branch_site.h"

namespace hindsight {
namespace {

// Followed by links, relied_on, side, outward, own, to_exits, bytes, bytes relied on.
struct BlockRecord {
  uint32_t size;  // with all of that, and padding to a multiple of 8
  uint32_t code_bytes;
  uint32_t exits_offset;  // in the code of the page
  uint32_t exits_bytes;
  uint32_t guest_bytes;
  uint32_t relied_bytes;
  uint16_t links, relied_on, side, outward;
  uint16_t own, to_exits, reserved[2];
};
static_assert(sizeof(BlockRecord) == 40);

uint64_t PartsOf(const BlockRecord& record) {
  return sizeof(BlockRecord) + record.links * sizeof(Link) + record.relied_on * sizeof(CodeRange) +
         record.side * sizeof(SideEntry) +
         (uint64_t{record.outward} + record.own + record.to_exits) * sizeof(uint32_t) +
         record.guest_bytes + record.relied_bytes;
}

uint64_t AlignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

class Reader {
 public:
  explicit Reader(const uint8_t* next) : next_(next) {}
  template <typename T>
  absl::Span<const T> Take(uint64_t count) {
    const auto* const first = reinterpret_cast<const T*>(next_);
    next_ += count * sizeof(T);
    return absl::MakeConstSpan(first, count);
  }
  // `base`: what is aligned.
  void Align(const void* base) {
    const auto start = static_cast<const uint8_t*>(base);
    next_ = start + AlignUp(static_cast<uint64_t>(next_ - start), 8);
  }

 private:
  const uint8_t* next_;
};

template <typename T>
void Append(absl::Span<const T> from, std::vector<uint8_t>* out) {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(from.data());
  out->insert(out->end(), bytes, bytes + from.size() * sizeof(T));
}

void AppendRecord(const Translation& translation, uint32_t exits_offset,
                  std::vector<uint8_t>* out) {
  const StoredBlock& block = translation.block;
  BlockRecord record = {.size = 0,
                        .code_bytes = static_cast<uint32_t>(block.code.size()),
                        .exits_offset = exits_offset,
                        .exits_bytes = static_cast<uint32_t>(block.exits.size()),
                        .guest_bytes = block.guest_bytes,
                        .relied_bytes = static_cast<uint32_t>(translation.relied_on.size()),
                        .links = static_cast<uint16_t>(block.links.size()),
                        .relied_on = static_cast<uint16_t>(block.relied_on.size()),
                        .side = static_cast<uint16_t>(block.side.size()),
                        .outward = static_cast<uint16_t>(block.outward.size()),
                        .own = static_cast<uint16_t>(block.own.size()),
                        .to_exits = static_cast<uint16_t>(block.to_exits.size()),
                        .reserved = {}};
  record.size = static_cast<uint32_t>(AlignUp(PartsOf(record), 8));
  const size_t end = out->size() + record.size;
  Append(absl::MakeConstSpan(&record, 1), out);
  Append(block.links, out);
  Append(block.relied_on, out);
  Append(block.side, out);
  Append(block.outward, out);
  Append(block.own, out);
  Append(block.to_exits, out);
  Append(translation.bytes, out);
  Append(translation.relied_on, out);
  out->resize(end);
}

template <typename T>
T ReadAt(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

template <typename T>
void AddTo(uint8_t* at, T what) {
  const T value = static_cast<T>(ReadAt<T>(at) + what);
  std::memcpy(at, &value, sizeof(value));
}

}  // namespace

uint64_t PageImage::SizeOf(const Header& header) {
  const uint64_t parts =
      sizeof(Header) + header.ranges * sizeof(CodeRange) + header.links * sizeof(Link) +
      header.blocks * sizeof(Block) + header.inner * sizeof(InnerLink) +
      (uint64_t{header.outward} + header.own) * sizeof(uint32_t) + header.range_bytes;
  return AlignUp(parts, 8) + AlignUp(header.code_bytes, 8) + header.record_bytes;
}

std::optional<PageImage> PageImage::Decode(absl::Span<const uint8_t> bytes) {
  if (bytes.size() < sizeof(Header)) return std::nullopt;
  PageImage image;
  image.header_ = reinterpret_cast<const Header*>(bytes.data());
  const Header& header = *image.header_;
  if (SizeOf(header) != bytes.size() || header.blocks == 0) return std::nullopt;
  Reader reader(bytes.data() + sizeof(Header));
  image.ranges_ = reader.Take<CodeRange>(header.ranges);
  image.links_ = reader.Take<Link>(header.links);
  image.blocks_ = reader.Take<Block>(header.blocks);
  image.inner_ = reader.Take<InnerLink>(header.inner);
  image.outward_ = reader.Take<uint32_t>(header.outward);
  image.own_ = reader.Take<uint32_t>(header.own);
  image.range_bytes_ = reader.Take<uint8_t>(header.range_bytes);
  reader.Align(bytes.data());
  image.code_ = reader.Take<uint8_t>(header.code_bytes);
  reader.Align(bytes.data());
  image.records_ = reader.Take<uint8_t>(header.record_bytes);
  return image;
}

int32_t PageImage::ToExit(const Link& link) const {
  return ReadAt<int32_t>(&code_[link.rel32_offset]);
}

const PageImage::Block* PageImage::Find(uint64_t guest_pc) const {
  const auto it =
      std::lower_bound(blocks_.begin(), blocks_.end(), guest_pc,
                       [](const Block& block, uint64_t pc) { return block.guest_pc < pc; });
  return it == blocks_.end() || it->guest_pc != guest_pc ? nullptr : &*it;
}

const PageImage::Block* PageImage::At(uint64_t offset) const {
  const auto it =
      std::upper_bound(blocks_.begin(), blocks_.end(), offset,
                       [](uint64_t at, const Block& block) { return at < block.code_offset; });
  return it == blocks_.begin() ? nullptr : &*(it - 1);
}

bool PageImage::Fits(const BytesAt& bytes_at) const {
  const uint8_t* then = range_bytes_.data();
  for (const CodeRange& range : ranges_) {
    const absl::Span<const uint8_t> now = bytes_at(range.pc);
    if (now.size() < range.bytes || std::memcmp(now.data(), then, range.bytes) != 0) return false;
    then += range.bytes;
  }
  return true;
}

bool PageImage::CanMove(uint64_t host) const {
  const auto distance = static_cast<int64_t>(host - header_->made_for);
  return std::all_of(outward_.begin(), outward_.end(), [&](uint32_t at) {
    const int64_t moved = ReadAt<int32_t>(&code_[at]) - distance;
    return moved == static_cast<int32_t>(moved);
  });
}

void PageImage::WriteCode(uint64_t host, uint8_t* out) const {
  std::memcpy(out, code_.data(), code_.size());
  for (const InnerLink& link : inner_) {
    SetBranch(out + link.site, static_cast<int32_t>(link.target - link.site - 4));
  }
  const uint64_t distance = host - header_->made_for;
  if (distance == 0) return;
  for (const uint32_t at : outward_) AddTo(out + at, static_cast<uint32_t>(0 - distance));
  for (const uint32_t at : own_) AddTo(out + at, distance);
}

bool PageImage::DependsOn(uint64_t start, uint64_t end) const {
  return std::any_of(ranges_.begin(), ranges_.end(), [=](const CodeRange& range) {
    return range.pc < end && start < range.pc + range.bytes;
  });
}

std::optional<Translation> PageImage::Get(const Block& of, uint64_t host) const {
  if (of.record_offset > records_.size() ||
      records_.size() - of.record_offset < sizeof(BlockRecord)) {
    return std::nullopt;
  }
  const auto& record = *reinterpret_cast<const BlockRecord*>(&records_[of.record_offset]);
  const auto is_code = [this](uint64_t offset, uint64_t bytes) {
    return offset <= code_.size() && bytes <= code_.size() - offset;
  };
  if (PartsOf(record) > records_.size() - of.record_offset ||
      !is_code(of.code_offset, record.code_bytes) ||
      !is_code(record.exits_offset, record.exits_bytes)) {
    return std::nullopt;
  }
  Reader reader(reinterpret_cast<const uint8_t*>(&record + 1));
  Translation translation = {.guest_pc = of.guest_pc,
                             .host = host + of.code_offset,
                             .exits_host = host + record.exits_offset,
                             .made_for = header_->made_for + of.code_offset,
                             .exits_made_for = header_->made_for + record.exits_offset,
                             .lasting = true,
                             .needs = needs()};
  StoredBlock& block = translation.block;
  block.links = reader.Take<Link>(record.links);
  block.relied_on = reader.Take<CodeRange>(record.relied_on);
  block.side = reader.Take<SideEntry>(record.side);
  block.outward = reader.Take<uint32_t>(record.outward);
  block.own = reader.Take<uint32_t>(record.own);
  block.to_exits = reader.Take<uint32_t>(record.to_exits);
  block.code = code_.subspan(of.code_offset, record.code_bytes);
  block.exits = code_.subspan(record.exits_offset, record.exits_bytes);
  block.guest_bytes = record.guest_bytes;
  translation.bytes = reader.Take<uint8_t>(record.guest_bytes);
  translation.relied_on = reader.Take<uint8_t>(record.relied_bytes);
  return translation;
}

namespace {

// What AppendPageImage gathers.
struct Parts {
  // A block whose code begins `code` bytes behind the beginning of all code, and whose exits
  // `exits` bytes behind that of all exits.
  struct Chosen {
    const Translation* translation;
    uint32_t code, exits;
  };
  std::vector<Chosen> chosen;
  uint64_t code_bytes = 0, exits_bytes = 0;  // of those
  std::vector<CodeRange> ranges;
  std::vector<Link> links;
  std::vector<PageImage::Block> blocks;
  std::vector<PageImage::InnerLink> inner;
  std::vector<uint32_t> outward, own;
  std::vector<uint8_t> range_bytes, code, records;
  SeenCode seen;
  uint64_t last_byte = 0;
};

void Choose(const Translation& translation, uint64_t made_for, Parts* parts) {
  const StoredBlock& block = translation.block;
  const uint64_t code = AlignUp(parts->code_bytes, kHostAlignment);
  const uint64_t exits = AlignUp(parts->exits_bytes, kHostAlignment);
  const uint64_t all = code + block.code.size() + exits + block.exits.size() + kHostAlignment;
  if (all > PageImage::kMaxCodeBytes) return;
  // The exits will lie somewhere between.
  const HostPlace first = {made_for + code, made_for};
  const HostPlace last = {made_for + code, made_for + PageImage::kMaxCodeBytes};
  if (!CanMove(translation, first) || !CanMove(translation, last)) return;
  if (!parts->seen.Add(translation)) return;
  parts->chosen.push_back(
      {&translation, static_cast<uint32_t>(code), static_cast<uint32_t>(exits)});
  parts->code_bytes = code + block.code.size();
  parts->exits_bytes = exits + block.exits.size();
}

// `exits_start`: where all exits begin.
void AddBlock(const Parts::Chosen& chosen, uint64_t made_for, uint32_t exits_start, Parts* parts) {
  const Translation& translation = *chosen.translation;
  const StoredBlock& block = translation.block;
  const uint32_t start = chosen.code, exits = exits_start + chosen.exits;
  WriteCode(translation, {made_for + start, made_for + exits}, &parts->code[start],
            parts->code.data() + exits);
  parts->blocks.push_back({translation.guest_pc, start,
                           static_cast<uint32_t>(parts->records.size()),
                           static_cast<uint16_t>(block.guest_bytes), FlagsReadBy(block), 0});
  AppendRecord(translation, exits, &parts->records);
  for (const Link& link : block.links) {
    parts->links.push_back({start + link.rel32_offset, link.guest_target});
  }
  const auto code_bytes = static_cast<uint32_t>(block.code.size());
  const auto place = [=](uint32_t at) {
    return at < code_bytes ? start + at : exits + (at - code_bytes);
  };
  for (const uint32_t at : block.outward) parts->outward.push_back(place(at));
  for (const uint32_t at : block.own) parts->own.push_back(place(at));
  parts->last_byte =
      std::max(parts->last_byte, translation.guest_pc + std::max(block.guest_bytes, 1u) - 1);
}

// Those to blocks of the page become inner ones.
void SortLinks(Parts* parts) {
  std::map<uint64_t, uint32_t> offsets;
  for (const PageImage::Block& block : parts->blocks) offsets[block.guest_pc] = block.code_offset;
  std::vector<Link> others;
  for (const Link& link : parts->links) {
    const auto it = offsets.find(link.guest_target);
    if (it == offsets.end()) {
      others.push_back(link);
    } else {
      parts->inner.push_back({link.rel32_offset, it->second});
    }
  }
  parts->links = std::move(others);
}

}  // namespace

void AppendPageImage(absl::Span<const Translation* const> translations, std::vector<uint8_t>* out) {
  Parts parts;
  const uint64_t made_for = translations.front()->made_for;
  HostFeatures needs;
  for (const Translation* translation : translations) {
    Choose(*translation, made_for, &parts);
    needs.Add(translation->needs);
  }
  const auto exits_start = static_cast<uint32_t>(AlignUp(parts.code_bytes, kHostAlignment));
  parts.code.resize(exits_start + parts.exits_bytes);
  for (const Parts::Chosen& chosen : parts.chosen) {
    AddBlock(chosen, made_for, exits_start, &parts);
  }
  SortLinks(&parts);
  parts.seen.Take(&parts.ranges, &parts.range_bytes);
  const auto count = [](const auto& of) { return static_cast<uint32_t>(of.size()); };
  const PageImage::Header header = {.page = translations.front()->guest_pc / kPageBytes,
                                    .made_for = made_for,
                                    .last_byte = parts.last_byte,
                                    .needs = needs.bits(),
                                    .ranges = count(parts.ranges),
                                    .links = count(parts.links),
                                    .blocks = count(parts.blocks),
                                    .inner = count(parts.inner),
                                    .outward = count(parts.outward),
                                    .own = count(parts.own),
                                    .range_bytes = count(parts.range_bytes),
                                    .code_bytes = count(parts.code),
                                    .record_bytes = count(parts.records),
                                    .reserved = 0};
  const size_t start = out->size();
  out->reserve(start + PageImage::SizeOf(header));
  const auto align = [&] { out->resize(start + AlignUp(out->size() - start, 8)); };
  Append(absl::MakeConstSpan(&header, 1), out);
  Append(absl::MakeConstSpan(parts.ranges), out);
  Append(absl::MakeConstSpan(parts.links), out);
  Append(absl::MakeConstSpan(parts.blocks), out);
  Append(absl::MakeConstSpan(parts.inner), out);
  Append(absl::MakeConstSpan(parts.outward), out);
  Append(absl::MakeConstSpan(parts.own), out);
  Append(absl::MakeConstSpan(parts.range_bytes), out);
  align();
  Append(absl::MakeConstSpan(parts.code), out);
  align();
  Append(absl::MakeConstSpan(parts.records), out);
}

}  // namespace hindsight
