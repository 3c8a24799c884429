#include <cstdint>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tracefmt/samples/sample_trace.h"

namespace hindsight {
namespace {

std::string Hex(absl::Span<const uint8_t> bytes) {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

std::string Escaped(const std::string& bytes) { return absl::CHexEscape(bytes); }

std::string Numbers(const std::vector<uint64_t>& words) { return absl::StrJoin(words, ","); }

std::string Patch(const RegisterPatch& patch) {
  return absl::StrCat("[", absl::StrJoin(patch.index, ","), "]=[", Numbers(patch.value), "]");
}

// The body of a record as text.
struct Body {
  std::string operator()(const PageImport& page) const {
    return absl::StrCat("page ", page.address, " first ", page.first, " module ", page.module, "+",
                        page.module_offset, " mask ", page.line_mask, " ", Hex(page.lines),
                        page.known_mask == 0 ? "" : absl::StrCat(" known ", page.known_mask));
  }
  std::string operator()(const LineImport& line) const {
    return absl::StrCat("line ", line.address, " code ", line.code, " ", Hex(line.bytes));
  }
  std::string operator()(const UncachedRead& read) const {
    return absl::StrCat("read ", read.address, " size ", read.size, " value ", read.value);
  }
  std::string operator()(const SideEffect& effect) const {
    return absl::StrCat("effect ", static_cast<int>(effect.kind), " sequence ", effect.sequence,
                        " retired ", effect.retired, " hash ", effect.register_hash, " ",
                        Patch(effect.registers));
  }
  std::string operator()(const Discontinuity& jump) const {
    return absl::StrCat("discontinuity ", static_cast<int>(jump.kind), " sequence ", jump.sequence,
                        " hash ", jump.register_hash, " signal ", jump.signal, " ",
                        Escaped(jump.siginfo), " ", Patch(jump.registers));
  }
  std::string operator()(const RegisterHash& hash) const {
    return absl::StrCat("hash ", hash.hash);
  }
  std::string operator()(const SegmentEnd& end) const {
    return absl::StrCat("end ", Numbers(end.registers));
  }
  std::string operator()(const Gap& gap) const { return absl::StrCat("gap ", gap.reason); }
  std::string operator()(const OrderRun& run) const {
    return absl::StrCat("order ", run.first_sequence, " ", absl::StrJoin(run.counts, ","));
  }
  std::string operator()(const PageLeft& left) const { return absl::StrCat("left ", left.address); }
  std::string operator()(const MemoryHash& memory) const {
    return absl::StrCat("memory ", memory.address, " size ", memory.size_bytes, " hash ",
                        memory.hash);
  }
  std::string operator()(const MappedRange& range) const {
    return absl::StrCat("mapped ", range.address, " size ", range.bytes, " module ", range.module,
                        "+", range.module_offset);
  }
  std::string operator()(const UsedPages& used) const {
    return absl::StrCat("used ", absl::StrJoin(used.pages, ","), " complete ", used.complete);
  }
  std::string operator()(const ReferencedPage& page) const {
    return absl::StrCat("referenced ", page.address);
  }
};

std::string Maps(const std::vector<MapRegion>& maps) {
  std::string text;
  for (const MapRegion& region : maps) {
    absl::StrAppend(&text, "    map ", region.start, "-", region.end, " ", region.protection, " ",
                    region.shared, " ", region.file_offset, " ", region.device_major, ":",
                    region.device_minor, " ", region.inode, " ", Escaped(region.name), " ",
                    region.module, "\n");
  }
  return text;
}

std::string DescribeManifest(const Manifest& m) {
  std::string text =
      absl::StrCat("manifest ", absl::BytesToHexString(m.uuid), " ", Escaped(m.program), " in ",
                   Escaped(m.working_directory), " pid ", m.pid, " at ", m.start_time_ns, " on ",
                   Escaped(m.host_cpu), " by ", Escaped(m.engine), " ", Escaped(m.memory_model),
                   " ", Escaped(m.register_layout), "\n  every ", m.light_keyframe_interval, " ",
                   m.full_keyframe_interval, " auxv ", Numbers(m.auxv), "\n");
  for (const auto* strings : {&m.arguments, &m.environment, &m.required_features}) {
    absl::StrAppend(&text, " ", Escaped(absl::StrJoin(*strings, "|")), "\n");
  }
  absl::StrAppend(&text, "  state ", static_cast<int>(m.state), " exit ", m.exit_status, " ",
                  Escaped(m.end_reason), " sequence ", m.end_sequence, " time ", m.end_time_ns,
                  "\n");
  if (m.ordered_kernel_events + m.ordered_instructions > 0) {
    absl::StrAppend(&text, "  ordered ", m.ordered_kernel_events, " ", m.ordered_instructions,
                    "\n");
  }
  if (!m.start_kind.empty()) {
    absl::StrAppend(&text, "  started by ", Escaped(m.start_kind), " of ", m.parent_pid, " in ",
                    Escaped(m.parent_directory), " thread ", m.parent_thread, " count ",
                    m.parent_count, " sequence ", m.parent_sequence, "\n");
  }
  if (!m.cpu.empty()) absl::StrAppend(&text, "  cpu ", Escaped(m.cpu), "\n");
  if (!m.schedule.empty()) {
    absl::StrAppend(&text, "  schedule ", Escaped(m.schedule), " seed ", m.schedule_seed, "\n");
  }
  if (m.totals.has_value()) {
    absl::StrAppend(&text, "  totals events ", m.totals->events, " keyframes ",
                    m.totals->full_keyframes, " modules ", m.totals->modules, "\n");
    for (const ThreadTotals& thread : m.totals->threads) {
      absl::StrAppend(&text, "    thread ", thread.thread, " segments ", thread.segments, " end ",
                      thread.end_count, " records ", thread.records, "\n");
    }
  }
  return text;
}

std::string DescribeModule(const TraceReader& trace, int32_t index) {
  const Module& module = trace.modules().at(index);
  const auto bytes = trace.ModuleBytes(index);
  return absl::StrCat(
      "module ", Escaped(module.path), " id ", absl::BytesToHexString(module.build_id), " ",
      module.hash, " ", module.size_bytes, " stored ", module.stored, " ",
      bytes.ok() ? Hex(bytes->first(std::min<size_t>(64, bytes->size()))) : "-", "\n");
}

std::string DescribeSegment(const TraceReader& trace, const SegmentInfo& info) {
  std::string text = absl::StrCat("segment ", info.thread, "/", info.number, " from ",
                                  info.first_count, " sequence ", info.first_sequence, "\n");
  const auto segment = trace.LoadSegment(info.thread, info.number);
  if (!segment.ok()) return text + "  lost\n";
  absl::StrAppend(&text, "  registers ", Numbers((*segment)->registers()), "\n");
  for (const Record& record : (*segment)->records()) {
    absl::StrAppend(&text, "  ", record.count, ": ", std::visit(Body(), record.body), "\n");
  }
  absl::StrAppend(&text, "  ends at ", (*segment)->end_count(), " ended ",
                  (*segment)->end_registers() != nullptr, " damaged ", !(*segment)->damage().ok(),
                  "\n");
  return text;
}

std::string DescribeKeyframe(const FullKeyframe& keyframe) {
  std::string text = absl::StrCat("full keyframe ", keyframe.number(), " sequence ",
                                  keyframe.sequence(), " pages ", keyframe.page_count(), "\n");
  for (const auto& thread : keyframe.threads()) {
    absl::StrAppend(&text, "  thread ", thread.thread, " count ", thread.count, " segment ",
                    thread.segment, " registers ", Numbers(thread.registers), "\n");
  }
  absl::StrAppend(&text, Maps(keyframe.maps()));
  uint8_t page[kPageBytes];
  for (const uint64_t address : keyframe.page_addresses()) {
    const bool ok = keyframe.ReadPage(address, absl::MakeSpan(page)).ok();
    absl::StrAppend(&text, "  page ", address, ": ",
                    ok ? Hex(absl::MakeConstSpan(page).first(16)) : "lost", "\n");
  }
  return text;
}

}  // namespace

std::string Describe(const TraceReader& trace) {
  std::string text = DescribeManifest(trace.manifest());
  for (const auto& [index, module] : trace.modules()) text += DescribeModule(trace, index);
  for (const int32_t thread : trace.threads()) {
    for (const SegmentInfo& info : trace.segments(thread)) text += DescribeSegment(trace, info);
  }
  for (const auto& keyframe : trace.full_keyframes()) text += DescribeKeyframe(*keyframe);
  for (const ProcessEvent& event : trace.events()) {
    absl::StrAppend(&text, "event ", static_cast<int>(event.kind), " sequence ", event.sequence,
                    " thread ", event.thread, " count ", event.count, " number ", event.number,
                    " arguments ", Numbers(event.arguments), " result ", event.result, " ",
                    Escaped(event.text), "\n", Maps(event.maps));
  }
  return text;
}

std::string DescribeRecording(const std::string& directory) {
  std::vector<std::string> left_out;
  const auto processes = ListProcesses(directory, &left_out);
  if (!processes.ok()) return "no recording\n";
  std::string text;
  for (const ProcessInfo& process : *processes) {
    const auto trace = TraceReader::Open(process.files);
    absl::StrAppend(&text, "process ", process.manifest.pid, "\n",
                    trace.ok() ? Describe(**trace) : "  lost\n");
  }
  return absl::StrCat(text, left_out.size(), " left out\n");
}

}  // namespace hindsight
