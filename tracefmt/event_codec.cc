#include "tracefmt/event_codec.h"

#include <utility>

#include "base/status_macros.h"
#include "tracefmt/record_columns.h"
#include "tracefmt/storage/message.h"

namespace hindsight {
namespace {

// What they took in version 1.
constexpr uint64_t kMapRegionWords = 8;
constexpr uint64_t kEventWords = 8;

// Whether a kMapPart is what it must be: its ranges, and the regions within them.
bool IsMapPart(const ProcessEvent& event) {
  const std::vector<uint64_t>& borders = event.arguments;
  if (borders.empty() || borders.size() % 2 != 0) return false;
  for (size_t i = 0; i < borders.size(); i += 2) {
    if (borders[i] >= borders[i + 1] || (i > 0 && borders[i] < borders[i - 1])) return false;
  }
  size_t range = 0;
  uint64_t at = 0;
  for (const MapRegion& region : event.maps) {
    if (region.start < at || region.start >= region.end) return false;
    at = region.end;
    while (range < borders.size() && borders[range + 1] <= region.start) range += 2;
    if (range == borders.size()) return false;
    if (region.start < borders[range] || region.end > borders[range + 1]) return false;
  }
  return true;
}

absl::Status TooLarge(const std::string& path, const RawBlock& block) {
  return BlockError(absl::StatusCode::kResourceExhausted, path, block.offset,
                    "holds more than such a file can");
}

}  // namespace

void BuildMaps(const std::vector<MapRegion>& maps, capnp::List<wire::MapRegion>::Builder out) {
  for (size_t i = 0; i < maps.size(); ++i) {
    const MapRegion& from = maps[i];
    auto to = out[static_cast<uint32_t>(i)];
    to.setStart(from.start);
    to.setEnd(from.end);
    to.setProtection(from.protection);
    to.setShared(from.shared);
    to.setFileOffset(from.file_offset);
    to.setDeviceMajor(from.device_major);
    to.setDeviceMinor(from.device_minor);
    to.setInode(from.inode);
    to.setName(AsData(from.name));
    to.setModule(from.module);
  }
}

absl::Status ReadMaps(const std::string& path, const RawBlock& block,
                      capnp::List<wire::MapRegion>::Reader maps, ReadBudget* budget,
                      std::vector<MapRegion>* out) {
  if (!ListFits(maps.size(), kMapRegionWords, block.word_count)) {
    return BlockError(absl::StatusCode::kDataLoss, path, block.offset, "impossible memory map");
  }
  // Taken before: an element with nothing in its name takes this much, too.
  if (!budget->Take(maps.size() * sizeof(MapRegion))) return TooLarge(path, block);
  out->reserve(maps.size());
  uint64_t name_bytes = 0;
  for (const auto from : maps) {
    const capnp::Data::Reader name = from.getName();
    name_bytes += name.size();
    MapRegion& to = out->emplace_back();
    to.start = from.getStart();
    to.end = from.getEnd();
    to.protection = from.getProtection();
    to.shared = from.getShared();
    to.file_offset = from.getFileOffset();
    to.device_major = from.getDeviceMajor();
    to.device_minor = from.getDeviceMinor();
    to.inode = from.getInode();
    to.name = AsString(name);
    to.module = from.getModule();
  }
  // At once: for each it would take longer than reading it. The message bounds them, too.
  return budget->Take(name_bytes) ? absl::OkStatus() : TooLarge(path, block);
}

size_t EventBytes(const ProcessEvent& event) {
  size_t bytes = 80 + 8 * event.arguments.size() + event.text.size();
  for (const MapRegion& region : event.maps) bytes += 80 + region.name.size();
  return bytes;
}

void BuildEvents(const std::vector<ProcessEvent>& events, wire::EventBlock::Builder out) {
  auto list = out.initEvents(static_cast<uint32_t>(events.size()));
  for (size_t i = 0; i < events.size(); ++i) {
    const ProcessEvent& from = events[i];
    auto to = list[static_cast<uint32_t>(i)];
    to.setKind(static_cast<uint16_t>(from.kind));
    to.setSequence(from.sequence);
    to.setThread(from.thread);
    to.setCount(from.count);
    to.setNumber(from.number);
    if (!from.arguments.empty()) {
      FillList(to.initArguments(from.arguments.size()), from.arguments);
    }
    to.setResult(from.result);
    if (!from.text.empty()) to.setText(AsData(from.text));
    if (!from.maps.empty()) BuildMaps(from.maps, to.initMaps(from.maps.size()));
  }
}

absl::Status ReadEvents(const std::string& path, const RawBlock& block, ReadBudget* budget,
                        std::vector<ProcessEvent>* out) {
  const auto visit = [&](wire::EventBlock::Reader message) {
    if (!ListFits(message.getEvents().size(), kEventWords, block.word_count)) {
      return BlockError(absl::StatusCode::kDataLoss, path, block.offset, "impossible event list");
    }
    for (const auto from : message.getEvents()) {
      // Each is asked for once: what is visited counts, however often (VisitMessage).
      const auto arguments = from.getArguments();
      const capnp::Data::Reader text = from.getText();
      uint64_t bytes = sizeof(ProcessEvent) + text.size() + arguments.size() * sizeof(uint64_t);
      // Each range may leave a rest of a region on either side.
      if (from.getKind() == static_cast<uint16_t>(EventKind::kMapPart)) {
        bytes += arguments.size() * sizeof(MapRegion);
      }
      if (!budget->Take(bytes)) return TooLarge(path, block);
      if (from.getCount() > kMaxCount) {
        return BlockError(absl::StatusCode::kDataLoss, path, block.offset, "impossible count");
      }
      ProcessEvent to;
      to.kind = static_cast<EventKind>(from.getKind());
      to.sequence = from.getSequence();
      to.thread = from.getThread();
      to.count = from.getCount();
      to.number = from.getNumber();
      to.arguments = AsWords(arguments);
      to.result = from.getResult();
      to.text = AsString(text);
      RETURN_IF_ERROR(ReadMaps(path, block, from.getMaps(), budget, &to.maps));
      if (to.kind == EventKind::kMapPart && !IsMapPart(to)) {
        return BlockError(absl::StatusCode::kDataLoss, path, block.offset,
                          "impossible change of the memory map");
      }
      out->push_back(std::move(to));
    }
    return absl::OkStatus();
  };
  return VisitMessage<wire::EventBlock>(path, block, visit);
}

}  // namespace hindsight
