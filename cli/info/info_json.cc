#include "absl/strings/escaping.h"
#include "cli/info/info.h"
#include "cli/json.h"
#include "isa/host_features.h"
#include "keyframes/state/snapshot_list.h"

namespace hindsight {
namespace {

Json StringsJson(const std::vector<std::string>& strings) {
  Json json = Json::array();
  for (const std::string& string : strings) json.push_back(JsonText(string));
  return json;
}

void AddState(const Manifest& manifest, Json* json) {
  (*json)["state"] = StateName(manifest.state);
  if (manifest.state == TraceState::kComplete) {
    (*json)["durationNs"] = manifest.end_time_ns;
    (*json)["exitStatus"] = manifest.exit_status;
    (*json)["endReason"] = JsonText(manifest.end_reason);
  }
  (*json)["end"] = JsonText(EndText(manifest));
}

void AddManifest(const Manifest& manifest, Json* json) {
  (*json)["program"] = JsonText(manifest.program);
  (*json)["arguments"] = StringsJson(manifest.arguments);
  (*json)["workingDirectory"] = JsonText(manifest.working_directory);
  (*json)["pid"] = manifest.pid;
  (*json)["startTimeNs"] = manifest.start_time_ns;
  (*json)["start"] = JsonText(manifest.start_kind);
  AddState(manifest, json);
  (*json)["engine"] = JsonText(manifest.engine);
  (*json)["memoryModel"] = JsonText(manifest.memory_model);
  (*json)["schedule"] = JsonText(manifest.schedule);
  (*json)["seed"] = manifest.schedule_seed;
  (*json)["hostCpu"] = JsonText(manifest.host_cpu);
  (*json)["cpu"] = JsonText(manifest.cpu.empty() ? "portable" : manifest.cpu);
  (*json)["requiredFeatures"] = StringsJson(manifest.required_features);
  (*json)["missingFeatures"] =
      StringsJson(MissingFeatures(manifest.required_features, HostFeatures::OfThisHost()));
}

Json ThreadJson(const ThreadSummary& thread, bool all) {
  Json json;
  json["thread"] = thread.thread;
  json["instructions"] = thread.instructions;
  json["segments"] = thread.segments;
  if (!all) return json;
  json["name"] = JsonText(thread.name);
  json["start"] = ToString(thread.start);
  json["end"] = ToString(thread.end);
  json["slices"] = thread.slices;
  json["runningNs"] = thread.running_ns;
  json["moves"] = thread.moves;
  json["cpus"] = Json::array();
  for (const uint64_t cpu : thread.cpus) json["cpus"].push_back(cpu);
  return json;
}

void AddSummary(const TraceSummary& summary, bool threads, Json* json) {
  Json& all = (*json)["threads"] = Json::array();
  for (const ThreadSummary& thread : summary.threads) all.push_back(ThreadJson(thread, threads));
  (*json)["instructions"] = summary.instructions;
  (*json)["systemCalls"] = summary.syscalls;
  (*json)["signals"] = summary.signals;
  (*json)["slices"] = summary.slices;
  (*json)["forks"] = summary.forks;
  (*json)["execs"] = summary.execs;
  (*json)["orderedKernelEvents"] = summary.kernel_events;
  if (summary.ordered_instructions) {
    (*json)["orderedInstructions"] = *summary.ordered_instructions;
  }
  Json& gaps = (*json)["gaps"] = Json::array();
  for (const GapSummary& gap : summary.gaps) {
    Json& entry = gaps.emplace_back();
    entry["thread"] = gap.thread;
    entry["count"] = gap.count;
    entry["reason"] = JsonText(gap.reason);
  }
}

Json ProcessJson(const ProcessEntry& entry, bool threads) {
  const Manifest& manifest = entry.process.manifest;
  Json json;
  json["id"] = JsonText(entry.id);
  json["pid"] = manifest.pid;
  json["parent"] = JsonText(entry.parent);
  json["directory"] = JsonText(entry.process.directory);
  json["startTimeNs"] = manifest.start_time_ns;
  json["start"] = JsonText(manifest.start_kind);
  AddState(manifest, &json);
  if (entry.status.ok()) {
    json["program"] = JsonText(entry.summary.program);
    AddSummary(entry.summary, threads, &json);
    json["bytes"] = entry.bytes;
  } else {
    json["error"] = JsonText(entry.status.message());
  }
  return json;
}

Json ModulesJson(const TraceReader& trace) {
  Json json = Json::array();
  for (const auto& [index, module] : trace.modules()) {
    Json& entry = json.emplace_back();
    entry["path"] = JsonText(module.path);
    entry["hash"] = JsonText(module.hash);
    entry["buildId"] = absl::BytesToHexString(module.build_id);
    entry["bytes"] = module.size_bytes;
    entry["stored"] = module.stored;
  }
  return json;
}

Json SnapshotsJson(const TraceReader& trace) {
  Json json = Json::array();
  for (const SnapshotInfo& snapshot : ListSnapshots(trace)) {
    Json& entry = json.emplace_back();
    entry["number"] = snapshot.number;
    entry["timeNs"] = snapshot.time_ns;
    entry["thread"] = snapshot.thread;
    entry["trigger"] = TriggerName(snapshot.trigger);
    entry["level"] = snapshot.level;
    entry["class"] = snapshot.class_number;
    entry["id"] = snapshot.id;
    entry["label"] = JsonText(snapshot.label);
    Json& attributes = entry["attributes"] = Json::array();
    for (const auto& [key, value] : snapshot.attributes) {
      attributes.push_back(JsonText(absl::StrCat(key, "=", value)));
    }
    entry["skewNs"] = snapshot.skew_ns;
    entry["stopNs"] = snapshot.stop_ns;
    entry["bytes"] = snapshot.stored_bytes;
    entry["threads"] = snapshot.keyframe->threads().size();
    entry["pages"] = snapshot.keyframe->page_count();
  }
  return json;
}

Json SizesJson(const TraceReader::Sizes& sizes) {
  Json json;
  json["total"] = sizes.total;
  json["segments"] = sizes.segments;
  json["modules"] = sizes.modules;
  json["fullKeyframes"] = sizes.full_keyframes;
  json["events"] = sizes.events;
  return json;
}

Json RecordingJson(const RecordingInfo& info) {
  Json json;
  json["processes"] = info.processes.size();
  json["threads"] = info.threads();
  json["instructions"] = info.instructions();
  json["bytes"] = info.bytes();
  return json;
}

}  // namespace

namespace {

Json RingJson(const TraceReader& trace) {
  Json json;
  json["keeps"] = JsonText(trace.manifest().ring);
  const TrimmedEvent none = {.oldest_keyframe = 1, .whole_keyframe = 1};
  const TrimmedEvent& trimmed = trace.trimmed() == nullptr ? none : *trace.trimmed();
  json["oldestFullKeyframe"] = trimmed.oldest_keyframe;
  json["wholeFullKeyframe"] = trimmed.whole_keyframe;
  json["beginsNs"] = trimmed.time_ns;
  json["droppedSegments"] = trimmed.segments;
  json["droppedFullKeyframes"] = trimmed.keyframes;
  json["droppedEvents"] = trimmed.events;
  return json;
}

}  // namespace

std::string InfoJson(const RecordingInfo& info, bool threads) {
  const TraceReader& trace = *info.first;
  const TraceSummary& summary = info.processes[0].summary;
  const TraceReader::Sizes sizes = trace.sizes();
  Json json;
  json["trace"] = JsonText(trace.directory());
  AddManifest(trace.manifest(), &json);
  AddSummary(summary, threads, &json);
  json["lightKeyframes"] = summary.segments;
  json["fullKeyframes"] = trace.full_keyframes().size();
  if (!trace.manifest().ring.empty()) json["ring"] = RingJson(trace);
  if (HasSnapshots(trace)) json["snapshots"] = SnapshotsJson(trace);
  json["bytes"] = SizesJson(sizes);
  json["bitsPerInstruction"] = JsonNumber(BitsPerInstruction(sizes, summary.instructions));
  json["modules"] = ModulesJson(trace);
  json["recording"] = RecordingJson(info);
  Json& processes = json["processes"] = Json::array();
  for (const ProcessEntry& entry : info.processes) processes.push_back(ProcessJson(entry, threads));
  json["warnings"] = StringsJson(info.warnings);
  return JsonDocument(json);
}

}  // namespace hindsight
