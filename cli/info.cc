// hindsight info: what a trace holds.

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <map>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/command.h"
#include "cli/json.h"
#include "cli/record_text.h"

namespace hindsight {
namespace {

struct ThreadSummary {
  int32_t thread = 0;
  uint64_t segments = 0;
  uint64_t instructions = 0;
};

struct Summary {
  std::vector<ThreadSummary> threads;
  uint64_t segments = 0;
  uint64_t instructions = 0;
  uint64_t syscalls = 0;
  uint64_t signals = 0;
  // Of everything that replay needs and that grows with the run: segments and events.
  double bits_per_instruction = 0;
};

const char* StateName(TraceState state) {
  switch (state) {
    case TraceState::kRecording:
      return "recording";
    case TraceState::kComplete:
      return "complete";
    case TraceState::kInterrupted:
      return "interrupted";
  }
  return "unknown";
}

// Signals move a thread from one state to the next without an instruction.
Summary Summarize(const TraceReader& trace) {
  Summary summary;
  std::map<int32_t, uint64_t> signals;
  for (const ProcessEvent& event : trace.events()) {
    if (event.kind == EventKind::kSyscall) ++summary.syscalls;
    if (event.kind != EventKind::kSignal) continue;
    ++summary.signals;
    ++signals[event.thread];
  }
  for (int32_t thread : trace.threads()) {
    const std::vector<SegmentInfo>& segments = trace.segments(thread);
    if (segments.empty()) continue;
    auto last = trace.LoadSegment(thread, segments.back().number);
    uint64_t end = last.ok() ? (*last)->end_count() : segments.back().first_count;
    uint64_t states = end - std::min(end, segments.front().first_count);
    ThreadSummary thread_summary = {.thread = thread,
                                    .segments = segments.size(),
                                    .instructions = states - std::min(states, signals[thread])};
    summary.segments += thread_summary.segments;
    summary.instructions += thread_summary.instructions;
    summary.threads.push_back(thread_summary);
  }
  TraceReader::Sizes sizes = trace.sizes();
  if (summary.instructions > 0) {
    summary.bits_per_instruction =
        8.0 * static_cast<double>(sizes.segments + sizes.events) / summary.instructions;
  }
  return summary;
}

std::string TimeText(int64_t time_ns) {
  time_t seconds = time_ns / 1'000'000'000;
  tm broken;
  char text[64] = "";
  if (gmtime_r(&seconds, &broken) != nullptr) {
    std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &broken);
  }
  return text;
}

std::string EndText(const Manifest& manifest) {
  if (manifest.state == TraceState::kRecording) return "still recording";
  if (manifest.state == TraceState::kInterrupted) return "the recorder was interrupted";
  if (!manifest.end_reason.empty()) return manifest.end_reason;
  if (manifest.exit_status < 0) return "recording stopped before the program's end";
  return WaitStatusText(manifest.exit_status);
}

std::string SizeText(uint64_t bytes) {
  if (bytes < 10'000) return absl::StrCat(bytes, " B");
  if (bytes < 10'000'000) return absl::StrFormat("%.1f kB", bytes / 1e3);
  return absl::StrFormat("%.1f MB", bytes / 1e6);
}

std::string Quoted(const std::vector<std::string>& arguments) {
  return absl::StrJoin(arguments, " ", [](std::string* out, const std::string& argument) {
    bool plain =
        !argument.empty() && std::all_of(argument.begin(), argument.end(), [](unsigned char c) {
          return std::isalnum(c) ||
                 std::string_view("-_./=:,+@%").find(c) != std::string_view::npos;
        });
    absl::StrAppend(out, plain ? argument : absl::StrCat("\"", absl::CHexEscape(argument), "\""));
  });
}

std::string InfoText(const TraceReader& trace) {
  const Manifest& manifest = trace.manifest();
  Summary summary = Summarize(trace);
  TraceReader::Sizes sizes = trace.sizes();
  std::string out;
  auto line = [&out](absl::string_view name, absl::string_view value) {
    absl::StrAppendFormat(&out, "%-14s%s\n", absl::StrCat(name, ":"), value);
  };
  line("trace", trace.directory());
  line("program", manifest.program);
  line("arguments", Quoted(manifest.arguments));
  line("directory", manifest.working_directory);
  line("process", absl::StrCat(manifest.pid));
  line("recorded", TimeText(manifest.start_time_ns));
  if (manifest.state == TraceState::kComplete) {
    line("duration", absl::StrFormat("%.3f s", manifest.end_time_ns / 1e9));
  }
  line("state", StateName(manifest.state));
  line("end", EndText(manifest));
  line("engine", absl::StrCat(manifest.engine, ", memory model ", manifest.memory_model));
  line("host", manifest.host_cpu);
  if (!manifest.required_features.empty()) {
    line("replay needs", absl::StrJoin(manifest.required_features, " "));
  }
  line("threads", absl::StrCat(summary.threads.size()));
  line("instructions", absl::StrCat(summary.instructions));
  line("events", absl::StrCat(summary.syscalls, " system calls, ", summary.signals, " signals"));
  line("keyframes",
       absl::StrCat(summary.segments, " light, ", trace.full_keyframes().size(), " full"));
  line("size",
       absl::StrCat(SizeText(sizes.total), " (segments ", SizeText(sizes.segments), ", modules ",
                    SizeText(sizes.modules), ", full keyframes ", SizeText(sizes.full_keyframes),
                    ", events ", SizeText(sizes.events), ")"));
  line("bits/instr.", absl::StrFormat("%.3f", summary.bits_per_instruction));
  line("modules", absl::StrCat(trace.modules().size()));
  for (const Module& module : trace.modules()) {
    absl::StrAppend(&out, "  ", module.path, "  ", SizeText(module.size_bytes),
                    module.stored ? "" : ", not stored");
    if (!module.build_id.empty()) {
      absl::StrAppend(&out, "  build-id ", absl::BytesToHexString(module.build_id));
    }
    absl::StrAppend(&out, "\n");
  }
  return out;
}

void StringsJson(const char* key, const std::vector<std::string>& strings, JsonWriter* json) {
  json->Key(key).BeginArray();
  for (const std::string& string : strings) json->String(string);
  json->EndArray();
}

void ManifestJson(const Manifest& manifest, JsonWriter* json) {
  json->Key("program").String(manifest.program);
  StringsJson("arguments", manifest.arguments, json);
  json->Key("workingDirectory").String(manifest.working_directory);
  json->Key("pid").Int(manifest.pid).Key("startTimeNs").Int(manifest.start_time_ns);
  json->Key("state").String(StateName(manifest.state));
  if (manifest.state == TraceState::kComplete) {
    json->Key("durationNs").Uint(manifest.end_time_ns);
    json->Key("exitStatus").Int(manifest.exit_status);
    json->Key("endReason").String(manifest.end_reason);
  }
  json->Key("end").String(EndText(manifest));
  json->Key("engine").String(manifest.engine);
  json->Key("memoryModel").String(manifest.memory_model);
  json->Key("hostCpu").String(manifest.host_cpu);
  StringsJson("requiredFeatures", manifest.required_features, json);
}

std::string InfoJson(const TraceReader& trace) {
  Summary summary = Summarize(trace);
  TraceReader::Sizes sizes = trace.sizes();
  JsonWriter json;
  json.BeginObject().Key("trace").String(trace.directory());
  ManifestJson(trace.manifest(), &json);
  json.Key("threads").BeginArray();
  for (const ThreadSummary& thread : summary.threads) {
    json.BeginObject().Key("thread").Int(thread.thread);
    json.Key("instructions").Uint(thread.instructions);
    json.Key("segments").Uint(thread.segments).EndObject();
  }
  json.EndArray();
  json.Key("instructions").Uint(summary.instructions);
  json.Key("systemCalls").Uint(summary.syscalls).Key("signals").Uint(summary.signals);
  json.Key("lightKeyframes").Uint(summary.segments);
  json.Key("fullKeyframes").Uint(trace.full_keyframes().size());
  json.Key("bytes").BeginObject().Key("total").Uint(sizes.total);
  json.Key("segments").Uint(sizes.segments).Key("modules").Uint(sizes.modules);
  json.Key("fullKeyframes").Uint(sizes.full_keyframes).Key("events").Uint(sizes.events);
  json.EndObject();
  json.Key("bitsPerInstruction").Number(summary.bits_per_instruction);
  json.Key("modules").BeginArray();
  for (const Module& module : trace.modules()) {
    json.BeginObject().Key("path").String(module.path).Key("hash").String(module.hash);
    json.Key("buildId").String(absl::BytesToHexString(module.build_id));
    json.Key("bytes").Uint(module.size_bytes).Key("stored").Bool(module.stored).EndObject();
  }
  json.EndArray();
  StringsJson("warnings", trace.warnings(), &json);
  json.EndObject();
  return json.text() + "\n";
}

}  // namespace

int InfoCommand(Arguments arguments) {
  bool json = false;
  Options options("info [TRACE] [options]",
                  "Shows what a recording holds: program, state, threads, instructions, events, "
                  "keyframes,\nmodules, sizes.");
  options.Add("json", &json, "", "As one JSON object.");
  int exit_status = 0;
  auto parsed = ParseOrExit("info", options, arguments, false, &exit_status);
  if (!parsed) return exit_status;
  auto trace = OpenTraceOperand("info", *parsed, &exit_status);
  if (trace == nullptr) return exit_status;
  return Print(json ? InfoJson(*trace) : InfoText(*trace)) ? 0 : kExitFailure;
}

}  // namespace hindsight
