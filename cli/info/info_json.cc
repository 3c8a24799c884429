#include "absl/strings/escaping.h"
#include "cli/info/info.h"
#include "cli/json.h"
#include "isa/host_features.h"

namespace hindsight {
namespace {

void StringsJson(const char* key, const std::vector<std::string>& strings, JsonWriter* json) {
  json->Key(key).BeginArray();
  for (const std::string& string : strings) json->String(string);
  json->EndArray();
}

void StateJson(const Manifest& manifest, JsonWriter* json) {
  json->Key("state").String(StateName(manifest.state));
  if (manifest.state == TraceState::kComplete) {
    json->Key("durationNs").Uint(manifest.end_time_ns);
    json->Key("exitStatus").Int(manifest.exit_status);
    json->Key("endReason").String(manifest.end_reason);
  }
  json->Key("end").String(EndText(manifest));
}

void ManifestJson(const Manifest& manifest, JsonWriter* json) {
  json->Key("program").String(manifest.program);
  StringsJson("arguments", manifest.arguments, json);
  json->Key("workingDirectory").String(manifest.working_directory);
  json->Key("pid").Int(manifest.pid).Key("startTimeNs").Int(manifest.start_time_ns);
  json->Key("start").String(manifest.start_kind);
  StateJson(manifest, json);
  json->Key("engine").String(manifest.engine);
  json->Key("memoryModel").String(manifest.memory_model);
  json->Key("schedule").String(manifest.schedule).Key("seed").Uint(manifest.schedule_seed);
  json->Key("hostCpu").String(manifest.host_cpu);
  json->Key("cpu").String(manifest.cpu.empty() ? "portable" : manifest.cpu);
  StringsJson("requiredFeatures", manifest.required_features, json);
  StringsJson("missingFeatures",
              MissingFeatures(manifest.required_features, HostFeatures::OfThisHost()), json);
}

void ThreadJson(const ThreadSummary& thread, bool all, JsonWriter* json) {
  json->BeginObject().Key("thread").Int(thread.thread);
  json->Key("instructions").Uint(thread.instructions);
  json->Key("segments").Uint(thread.segments);
  if (all) {
    json->Key("name").String(thread.name);
    json->Key("start").String(ToString(thread.start)).Key("end").String(ToString(thread.end));
    json->Key("slices").Uint(thread.slices).Key("runningNs").Uint(thread.running_ns);
    json->Key("moves").Uint(thread.moves).Key("cpus").BeginArray();
    for (const uint64_t cpu : thread.cpus) json->Uint(cpu);
    json->EndArray();
  }
  json->EndObject();
}

void SummaryJson(const TraceSummary& summary, bool threads, JsonWriter* json) {
  json->Key("threads").BeginArray();
  for (const ThreadSummary& thread : summary.threads) ThreadJson(thread, threads, json);
  json->EndArray();
  json->Key("instructions").Uint(summary.instructions);
  json->Key("systemCalls").Uint(summary.syscalls).Key("signals").Uint(summary.signals);
  json->Key("slices").Uint(summary.slices).Key("forks").Uint(summary.forks);
  json->Key("execs").Uint(summary.execs);
  json->Key("orderedKernelEvents").Uint(summary.kernel_events);
  if (summary.ordered_instructions) {
    json->Key("orderedInstructions").Uint(*summary.ordered_instructions);
  }
  json->Key("gaps").BeginArray();
  for (const GapSummary& gap : summary.gaps) {
    json->BeginObject().Key("thread").Int(gap.thread).Key("count").Uint(gap.count);
    json->Key("reason").String(gap.reason).EndObject();
  }
  json->EndArray();
}

void ProcessJson(const ProcessEntry& entry, bool threads, JsonWriter* json) {
  const Manifest& manifest = entry.process.manifest;
  json->BeginObject().Key("id").String(entry.id).Key("pid").Int(manifest.pid);
  json->Key("parent").String(entry.parent).Key("directory").String(entry.process.directory);
  json->Key("startTimeNs").Int(manifest.start_time_ns).Key("start").String(manifest.start_kind);
  StateJson(manifest, json);
  if (entry.status.ok()) {
    json->Key("program").String(entry.summary.program);
    SummaryJson(entry.summary, threads, json);
    json->Key("bytes").Uint(entry.bytes);
  } else {
    json->Key("error").String(entry.status.message());
  }
  json->EndObject();
}

void ModulesJson(const TraceReader& trace, JsonWriter* json) {
  json->Key("modules").BeginArray();
  for (const Module& module : trace.modules()) {
    json->BeginObject().Key("path").String(module.path).Key("hash").String(module.hash);
    json->Key("buildId").String(absl::BytesToHexString(module.build_id));
    json->Key("bytes").Uint(module.size_bytes).Key("stored").Bool(module.stored).EndObject();
  }
  json->EndArray();
}

}  // namespace

std::string InfoJson(const RecordingInfo& info, bool threads) {
  const TraceReader& trace = *info.first;
  const TraceSummary& summary = info.processes[0].summary;
  const TraceReader::Sizes sizes = trace.sizes();
  JsonWriter json;
  json.BeginObject().Key("trace").String(trace.directory());
  ManifestJson(trace.manifest(), &json);
  SummaryJson(summary, threads, &json);
  json.Key("lightKeyframes").Uint(summary.segments);
  json.Key("fullKeyframes").Uint(trace.full_keyframes().size());
  json.Key("bytes").BeginObject().Key("total").Uint(sizes.total);
  json.Key("segments").Uint(sizes.segments).Key("modules").Uint(sizes.modules);
  json.Key("fullKeyframes").Uint(sizes.full_keyframes).Key("events").Uint(sizes.events);
  json.EndObject();
  json.Key("bitsPerInstruction").Number(BitsPerInstruction(sizes, summary.instructions));
  ModulesJson(trace, &json);
  json.Key("recording").BeginObject().Key("processes").Uint(info.processes.size());
  json.Key("threads").Uint(info.threads()).Key("instructions").Uint(info.instructions());
  json.Key("bytes").Uint(info.bytes()).EndObject();
  json.Key("processes").BeginArray();
  for (const ProcessEntry& entry : info.processes) ProcessJson(entry, threads, &json);
  json.EndArray();
  StringsJson("warnings", info.warnings, &json);
  json.EndObject();
  return json.text() + "\n";
}

}  // namespace hindsight
