#include "cli/info/record_text.h"

#include <sys/mman.h>
#include <sys/wait.h>

#include <bit>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/printable.h"
#include "base/syscall_names.h"
#include "isa/registers.h"

namespace hindsight {
namespace {

std::string Hex(absl::Span<const uint8_t> bytes) {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

const char* SideEffectName(SideEffectKind kind) {
  return kind == SideEffectKind::kSyscall ? "syscall" : "instruction";
}

const char* DiscontinuityName(DiscontinuityKind kind) {
  switch (kind) {
    case DiscontinuityKind::kSignal:
      return "signal";
    case DiscontinuityKind::kSigreturn:
      return "sigreturn";
    case DiscontinuityKind::kException:
      return "exception";
    case DiscontinuityKind::kExec:
      return "exec";
  }
  return "discontinuity";
}

const char* EventName(EventKind kind) {
  switch (kind) {
    case EventKind::kSyscall:
      return "syscall";
    case EventKind::kSignal:
      return "signal";
    case EventKind::kMapChange:
      return "map-change";
    case EventKind::kMapPart:
      return "map-part";
    case EventKind::kTrimmed:
      return "trimmed";
    case EventKind::kSnapshot:
      return "snapshot";
    case EventKind::kFullKeyframe:
      return "full-keyframe";
    case EventKind::kThreadStart:
      return "thread-start";
    case EventKind::kThreadExit:
      return "thread-exit";
    case EventKind::kProcessExit:
      return "process-exit";
    case EventKind::kExec:
      return "exec";
    case EventKind::kFork:
      return "fork";
    case EventKind::kGap:
      return "gap";
    case EventKind::kSchedule:
      return "schedule";
    case EventKind::kNote:
      return "note";
    case EventKind::kSlice:
      return "slice";
    case EventKind::kThreadName:
      return "thread-name";
    case EventKind::kMemoryUnknown:
      return "memory-unknown";
    case EventKind::kFileChanged:
      return "file-changed";
  }
  return "event";
}

std::string SyscallText(int64_t number) {
  const char* name = SyscallName(number);
  return name != nullptr ? name : absl::StrCat("number ", number);
}

std::string RegisterName(size_t index) {
  return index < kRegisterWords ? RegisterWordName(index) : absl::StrCat("word", index);
}

std::string PatchText(const RegisterPatch& patch) {
  std::string out;
  for (size_t i = 0; i < patch.index.size() && i < patch.value.size(); ++i) {
    absl::StrAppendFormat(&out, " %s=%#x", RegisterName(patch.index[i]), patch.value[i]);
  }
  return out;
}

Json PatchJson(const RegisterPatch& patch) {
  Json json = Json::object();
  for (size_t i = 0; i < patch.index.size() && i < patch.value.size(); ++i) {
    json[RegisterName(patch.index[i])] = JsonHex(patch.value[i]);
  }
  return json;
}

// Calls f(address, bytes) for each line of `page`.
template <typename F>
void ForEachLine(const PageImport& page, F f) {
  size_t offset = 0;
  for (int line = 0; line < 64; ++line) {
    if ((page.line_mask >> line & 1) == 0 || offset + kLineBytes > page.lines.size()) continue;
    f(page.address + line * kLineBytes, page.lines.subspan(offset, kLineBytes));
    offset += kLineBytes;
  }
}

// Writes the body of a record as text.
struct TextVisitor {
  RecordTextOptions options;

  std::string operator()(const PageImport& page) const {
    std::string out = absl::StrFormat("import page %#x", page.address);
    if (page.first) absl::StrAppend(&out, " first");
    if (page.module >= 0) {
      absl::StrAppendFormat(&out, " module %d+%#x", page.module, page.module_offset);
    }
    absl::StrAppendFormat(&out, " lines %d", std::popcount(page.line_mask));
    if (page.known_mask != 0)
      absl::StrAppendFormat(&out, " known %d", std::popcount(page.known_mask));
    if (page.turn != PageImport::kFirstTurn) absl::StrAppendFormat(&out, " turn %d", page.turn);
    for (const PageImport::Shown& shown : page.shown) {
      absl::StrAppendFormat(&out, " shown by %d: %d", shown.thread, std::popcount(shown.lines));
    }
    if (options.contents) {
      ForEachLine(page, [&out](uint64_t address, absl::Span<const uint8_t> bytes) {
        absl::StrAppendFormat(&out, "\n    %#x: %s", address, Hex(bytes));
      });
    }
    return out;
  }
  std::string operator()(const LineImport& line) const {
    std::string out = absl::StrFormat("import line %#x%s", line.address, line.code ? " code" : "");
    if (options.contents) absl::StrAppend(&out, "\n    ", Hex(line.bytes));
    return out;
  }
  std::string operator()(const UncachedRead& read) const {
    return absl::StrFormat("uncached read %#x size %d value %#x", read.address, read.size,
                           read.value);
  }
  std::string operator()(const SideEffect& effect) const {
    std::string out = absl::StrCat("side effect ", SideEffectName(effect.kind));
    if (effect.sequence != 0) absl::StrAppendFormat(&out, " sequence %X", effect.sequence);
    if (!effect.retired) absl::StrAppend(&out, " partial");
    return out + PatchText(effect.registers);
  }
  std::string operator()(const Discontinuity& event) const {
    std::string out = absl::StrCat("discontinuity ", DiscontinuityName(event.kind));
    if (event.signal != 0) absl::StrAppendFormat(&out, " %d", event.signal);
    if (event.sequence != 0) absl::StrAppendFormat(&out, " sequence %X", event.sequence);
    return out + PatchText(event.registers);
  }
  std::string operator()(const RegisterHash& hash) const {
    return absl::StrFormat("hash %016x", hash.hash);
  }
  std::string operator()(const SegmentEnd& end) const {
    std::string out = "end";
    RegisterFile registers;
    if (FromWords(end.registers, &registers)) {
      absl::StrAppendFormat(&out, " rip=%#x hash %016x", registers.rip, Hash(registers));
    }
    return out;
  }
  std::string operator()(const Gap& gap) const { return absl::StrCat("gap: ", gap.reason); }
  std::string operator()(const OrderRun& run) const {
    std::string out =
        absl::StrFormat("order sequence %X events %d", run.first_sequence, run.counts.size());
    if (options.contents) return absl::StrCat(out, "\n    ", absl::StrJoin(run.counts, " "));
    if (run.counts.empty()) return out;
    if (run.counts.size() == 1) return absl::StrCat(out, " count ", run.counts[0]);
    return absl::StrCat(out, " counts ", run.counts.front(), " to ", run.counts.back());
  }
  std::string operator()(const PageLeft& left) const {
    return absl::StrFormat("left %#x", left.address);
  }
  std::string operator()(const MemoryHash& memory) const {
    return absl::StrFormat("memory %#x size %d hash %016x", memory.address, memory.size_bytes,
                           memory.hash);
  }
  std::string operator()(const MappedRange& range) const {
    std::string out = absl::StrFormat("mapped %#x size %d", range.address, range.bytes);
    if (range.module < 0) return out + " zeros";
    return out + absl::StrFormat(" module %d+%#x", range.module, range.module_offset);
  }
  std::string operator()(const UsedPages& used) const {
    std::string out = absl::StrFormat("used pages %d", used.pages.size());
    if (used.complete) absl::StrAppend(&out, " complete");
    if (!options.contents || used.pages.empty()) return out;
    absl::StrAppend(&out, "\n   ");
    for (const uint64_t page : used.pages) absl::StrAppendFormat(&out, " %#x", page);
    return out;
  }
  std::string operator()(const ReferencedPage& page) const {
    return absl::StrFormat("referenced page %#x", page.address);
  }
};

// Adds the body of a record to an object.
struct JsonVisitor {
  RecordTextOptions options;
  Json& json;

  void operator()(const PageImport& page) const {
    json["kind"] = "import page";
    json["address"] = JsonHex(page.address);
    json["first"] = page.first;
    json["lineMask"] = JsonHex(page.line_mask);
    if (page.module >= 0) {
      json["module"] = page.module;
      json["moduleOffset"] = page.module_offset;
    }
    if (page.known_mask != 0) json["knownMask"] = JsonHex(page.known_mask);
    if (page.turn != PageImport::kFirstTurn) json["turn"] = page.turn;
    for (const PageImport::Shown& shown : page.shown) {
      json["shown"].push_back({{"thread", shown.thread}, {"lineMask", JsonHex(shown.lines)}});
    }
    if (!options.contents) return;
    Json& lines = json["lines"] = Json::object();
    ForEachLine(page, [&lines](uint64_t address, absl::Span<const uint8_t> bytes) {
      lines[absl::StrFormat("%#x", address)] = Hex(bytes);
    });
  }
  void operator()(const LineImport& line) const {
    json["kind"] = "import line";
    json["address"] = JsonHex(line.address);
    json["code"] = line.code;
    if (options.contents) json["bytes"] = Hex(line.bytes);
  }
  void operator()(const UncachedRead& read) const {
    json["kind"] = "uncached read";
    json["address"] = JsonHex(read.address);
    json["size"] = read.size;
    json["value"] = JsonHex(read.value);
  }
  void operator()(const SideEffect& effect) const {
    json["kind"] = absl::StrCat("side effect ", SideEffectName(effect.kind));
    json["sequence"] = effect.sequence;
    json["retired"] = effect.retired;
    json["registers"] = PatchJson(effect.registers);
  }
  void operator()(const Discontinuity& event) const {
    json["kind"] = absl::StrCat("discontinuity ", DiscontinuityName(event.kind));
    json["sequence"] = event.sequence;
    json["signal"] = event.signal;
    if (options.contents) json["siginfo"] = absl::BytesToHexString(event.siginfo);
    json["registers"] = PatchJson(event.registers);
  }
  void operator()(const RegisterHash& hash) const {
    json["kind"] = "hash";
    json["hash"] = JsonHex(hash.hash);
  }
  void operator()(const SegmentEnd& end) const {
    json["kind"] = "end";
    Json& registers = json["registers"] = Json::object();
    for (size_t i = 0; i < end.registers.size(); ++i) {
      registers[RegisterName(i)] = JsonHex(end.registers[i]);
    }
  }
  void operator()(const Gap& gap) const {
    json["kind"] = "gap";
    json["reason"] = JsonText(gap.reason);
  }
  void operator()(const OrderRun& run) const {
    json["kind"] = "order";
    json["sequence"] = run.first_sequence;
    Json& counts = json["counts"] = Json::array();
    for (const uint64_t count : run.counts) counts.push_back(count);
  }
  void operator()(const PageLeft& left) const {
    json["kind"] = "left";
    json["address"] = JsonHex(left.address);
  }
  void operator()(const MemoryHash& memory) const {
    json["kind"] = "memory";
    json["address"] = JsonHex(memory.address);
    json["size"] = memory.size_bytes;
    json["hash"] = JsonHex(memory.hash);
  }
  void operator()(const MappedRange& range) const {
    json["kind"] = "mapped";
    json["address"] = JsonHex(range.address);
    json["size"] = range.bytes;
    if (range.module < 0) return;
    json["module"] = range.module;
    json["moduleOffset"] = range.module_offset;
  }
  void operator()(const UsedPages& used) const {
    json["kind"] = "used pages";
    json["complete"] = used.complete;
    Json& pages = json["pages"] = Json::array();
    for (const uint64_t page : used.pages) pages.push_back(JsonHex(page));
  }
  void operator()(const ReferencedPage& page) const {
    json["kind"] = "referenced page";
    json["address"] = JsonHex(page.address);
  }
};

std::string ForkText(const ProcessEvent& event) {
  std::string out = absl::StrCat(" child ", event.result);
  if (event.arguments.size() < 2) return out;
  switch (static_cast<ForkKind>(event.arguments[0])) {
    case ForkKind::kFork:
      absl::StrAppend(&out, " by fork");
      break;
    case ForkKind::kVfork:
      absl::StrAppend(&out, " by vfork");
      break;
    case ForkKind::kClone:
      absl::StrAppend(&out, " by clone");
      break;
  }
  return absl::StrCat(out, event.arguments[1] != 0 ? "" : ", not recorded");
}

std::string SliceText(const ProcessEvent& event) {
  if (event.arguments.size() < 3) return "";
  std::string out = absl::StrFormat(" resumed %.6f s, one before ended %.6f s",
                                    event.arguments[0] / 1e9, event.arguments[1] / 1e9);
  if (event.arguments[2] != ~uint64_t{0}) absl::StrAppend(&out, ", cpu ", event.arguments[2]);
  return out;
}

Json NumbersJson(const std::vector<uint64_t>& numbers) {
  Json json = Json::array();
  for (const uint64_t number : numbers) json.push_back(number);
  return json;
}

Json HexJson(const std::vector<uint64_t>& numbers) {
  Json json = Json::array();
  for (const uint64_t number : numbers) json.push_back(JsonHex(number));
  return json;
}

Json MapsJson(const std::vector<MapRegion>& maps) {
  Json json = Json::array();
  for (const MapRegion& region : maps) {
    Json& entry = json.emplace_back();
    entry["start"] = JsonHex(region.start);
    entry["end"] = JsonHex(region.end);
    entry["read"] = (region.protection & PROT_READ) != 0;
    entry["write"] = (region.protection & PROT_WRITE) != 0;
    entry["execute"] = (region.protection & PROT_EXEC) != 0;
    entry["shared"] = region.shared;
    entry["offset"] = region.file_offset;
    entry["name"] = JsonText(region.name);
  }
  return json;
}

}  // namespace

std::string RecordText(const Record& record, const RecordTextOptions& options) {
  return absl::StrCat(record.count, " ", std::visit(TextVisitor{options}, record.body));
}

Json RecordJson(const Record& record, const RecordTextOptions& options) {
  Json json;
  json["count"] = record.count;
  std::visit(JsonVisitor{options, json}, record.body);
  return json;
}

std::string EventText(const ProcessEvent& event) {
  std::string out = absl::StrFormat("%d %s", event.count, EventName(event.kind));
  if (event.sequence != 0) absl::StrAppendFormat(&out, " sequence %X", event.sequence);
  if (event.thread != 0) absl::StrAppend(&out, " thread ", event.thread);
  switch (event.kind) {
    case EventKind::kSyscall: {
      absl::StrAppend(&out, " ", SyscallText(event.number), "(");
      for (size_t i = 0; i < event.arguments.size(); ++i) {
        absl::StrAppendFormat(&out, "%s%#x", i == 0 ? "" : ", ", event.arguments[i]);
      }
      absl::StrAppend(&out, ") = ", event.result);
      break;
    }
    case EventKind::kMapPart:
      for (size_t i = 0; i + 1 < event.arguments.size(); i += 2) {
        absl::StrAppendFormat(&out, " %#x-%#x", event.arguments[i], event.arguments[i + 1]);
      }
      [[fallthrough]];
    case EventKind::kMapChange:
      absl::StrAppend(&out, " regions ", event.maps.size());
      break;
    case EventKind::kProcessExit:
      absl::StrAppend(&out, " ", WaitStatusText(static_cast<int>(event.number)));
      break;
    case EventKind::kSignal:
    case EventKind::kFullKeyframe:
    case EventKind::kFileChanged:
      absl::StrAppend(&out, " ", event.number);
      break;
    case EventKind::kThreadStart:
      if (event.number != 0) absl::StrAppend(&out, " by ", event.number);
      if (!event.text.empty()) absl::StrAppend(&out, " ", Printable(event.text));
      break;
    case EventKind::kFork:
      absl::StrAppend(&out, ForkText(event));
      break;
    case EventKind::kSlice:
      absl::StrAppend(&out, SliceText(event));
      break;
    case EventKind::kSchedule:
      if (event.arguments.size() >= 3) {
        absl::StrAppend(&out, " cpu ", event.arguments[1], " before ", event.arguments[2]);
      }
      break;
    default:
      if (!event.text.empty()) absl::StrAppend(&out, " ", Printable(event.text));
  }
  return out;
}

Json EventJson(const ProcessEvent& event) {
  Json json;
  json["count"] = event.count;
  json["event"] = EventName(event.kind);
  json["sequence"] = event.sequence;
  json["thread"] = event.thread;
  json["number"] = event.number;
  if (event.kind == EventKind::kSyscall) {
    json["name"] = SyscallText(event.number);
    json["arguments"] = HexJson(event.arguments);
    json["result"] = event.result;
  }
  if (event.kind == EventKind::kFork || event.kind == EventKind::kSlice ||
      event.kind == EventKind::kSchedule) {
    json["arguments"] = NumbersJson(event.arguments);
  }
  if (event.kind == EventKind::kFork) json["result"] = event.result;
  if (event.kind == EventKind::kMapPart) json["ranges"] = HexJson(event.arguments);
  if (event.kind == EventKind::kMapChange || event.kind == EventKind::kMapPart) {
    json["maps"] = MapsJson(event.maps);
  } else if (event.kind != EventKind::kSignal && !event.text.empty()) {
    json["text"] = JsonText(event.text);
  }
  return json;
}

std::string WaitStatusText(int status) {
  if (WIFEXITED(status)) return absl::StrCat("exited with status ", WEXITSTATUS(status));
  if (WIFSIGNALED(status)) {
    return absl::StrCat("killed by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)),
                        ")");
  }
  return absl::StrFormat("wait status %#x", status);
}

}  // namespace hindsight
