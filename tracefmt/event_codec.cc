#include "tracefmt/event_codec.h"

#include <utility>

#include "tracefmt/message.h"

namespace hindsight {

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

std::vector<MapRegion> ReadMaps(capnp::List<wire::MapRegion>::Reader maps) {
  std::vector<MapRegion> regions;
  regions.reserve(maps.size());
  for (const auto from : maps) {
    MapRegion& to = regions.emplace_back();
    to.start = from.getStart();
    to.end = from.getEnd();
    to.protection = from.getProtection();
    to.shared = from.getShared();
    to.file_offset = from.getFileOffset();
    to.device_major = from.getDeviceMajor();
    to.device_minor = from.getDeviceMinor();
    to.inode = from.getInode();
    to.name = AsString(from.getName());
    to.module = from.getModule();
  }
  return regions;
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

absl::Status ReadEvents(const std::string& path, const RawBlock& block,
                        std::vector<ProcessEvent>* out) {
  return VisitMessage<wire::EventBlock>(path, block, [&](wire::EventBlock::Reader message) {
    // Eight words is what an event took in version 1. A list can claim to have elements of no size,
    // millions of them.
    if (uint64_t{message.getEvents().size()} * 8 > block.word_count) {
      return BlockError(absl::StatusCode::kDataLoss, path, block.offset, "impossible event list");
    }
    for (const auto from : message.getEvents()) {
      ProcessEvent to;
      to.kind = static_cast<EventKind>(from.getKind());
      to.sequence = from.getSequence();
      to.thread = from.getThread();
      to.count = from.getCount();
      to.number = from.getNumber();
      to.arguments = AsWords(from.getArguments());
      to.result = from.getResult();
      to.text = AsString(from.getText());
      to.maps = ReadMaps(from.getMaps());
      out->push_back(std::move(to));
    }
    return absl::OkStatus();
  });
}

}  // namespace hindsight
