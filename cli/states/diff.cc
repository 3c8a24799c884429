// hindsight diff: what differs between two snapshots.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/printable.h"
#include "cli/command.h"
#include "cli/json.h"
#include "keyframes/inspect/snapshot_diff.h"
#include "keyframes/inspect/snapshot_view.h"

namespace hindsight {
namespace {

const char* RegionName(const MapRegion& region) {
  return region.name.empty() ? "anonymous" : region.name.c_str();
}

std::string RegionText(const RegionDifference& difference, uint64_t most_ranges) {
  const MapRegion& region = difference.region;
  std::string out =
      absl::StrFormat("%x-%x %s: ", region.start, region.end, Printable(RegionName(region)));
  if (difference.only_first || difference.only_second) {
    return absl::StrCat(out, "only in the ", difference.only_first ? "first" : "second", "\n");
  }
  absl::StrAppendFormat(&out, "%d pages, %d bytes", difference.pages, difference.bytes);
  if (difference.unknown_pages > 0) {
    absl::StrAppendFormat(&out, ", %d pages known to one only", difference.unknown_pages);
  }
  absl::StrAppend(&out, "\n");
  // Those of files are shown as variables.
  if (region.module >= 0) return out;
  const size_t shown = std::min<size_t>(difference.ranges.size(), most_ranges);
  for (size_t i = 0; i < shown; ++i) {
    const DifferentRange& range = difference.ranges[i];
    absl::StrAppendFormat(&out, "  %x-%x: %d of %d bytes\n", range.start, range.end, range.bytes,
                          range.end - range.start);
  }
  if (shown < difference.ranges.size()) {
    absl::StrAppendFormat(&out, "  and %d more ranges\n", difference.ranges.size() - shown);
  }
  return out;
}

std::string DiffText(const SnapshotDifference& difference, uint64_t most_ranges) {
  if (difference.regions.empty()) return "no differences\n";
  std::string out;
  for (const RegionDifference& region : difference.regions) {
    absl::StrAppend(&out, RegionText(region, most_ranges));
  }
  if (!difference.variables.empty()) absl::StrAppend(&out, "variables:\n");
  for (const DifferentVariable& variable : difference.variables) {
    absl::StrAppendFormat(&out, "  %x %s (%s): %d of %d bytes\n", variable.address,
                          Printable(variable.name), Printable(variable.file), variable.bytes,
                          variable.size_bytes);
  }
  return out;
}

std::string DiffJson(const SnapshotDifference& difference, uint64_t most_ranges) {
  Json json;
  Json& regions = json["mappings"] = Json::array();
  for (const RegionDifference& region : difference.regions) {
    Json& entry = regions.emplace_back();
    entry["start"] = region.region.start;
    entry["end"] = region.region.end;
    entry["name"] = JsonText(region.region.name);
    if (region.only_first || region.only_second) {
      entry["only"] = region.only_first ? "first" : "second";
    }
    entry["pages"] = region.pages;
    entry["bytes"] = region.bytes;
    entry["unknownPages"] = region.unknown_pages;
    entry["rangesTotal"] = region.ranges.size();
    Json& ranges = entry["ranges"] = Json::array();
    for (const DifferentRange& range : region.ranges) {
      if (ranges.size() == most_ranges) break;
      Json& part = ranges.emplace_back();
      part["start"] = range.start;
      part["end"] = range.end;
      part["bytes"] = range.bytes;
    }
  }
  Json& variables = json["variables"] = Json::array();
  for (const DifferentVariable& variable : difference.variables) {
    Json& entry = variables.emplace_back();
    entry["name"] = JsonText(variable.name);
    entry["file"] = JsonText(variable.file);
    entry["address"] = variable.address;
    entry["size"] = variable.size_bytes;
    entry["bytes"] = variable.bytes;
  }
  return JsonDocument(json);
}

}  // namespace

int DiffCommand(Arguments arguments) {
  bool json = false;
  uint64_t most_ranges = 20;
  TraceChoice choice;
  Options options(
      "diff [TRACE] N M [options]",
      "Shows what differs between the memory of two snapshots, or of two full keyframes "
      "of a recording:\nmappings, pages, variables by their symbols, ranges of "
      "bytes elsewhere.");
  AddTraceOptions(&options, &choice);
  options.Add("ranges", &most_ranges, "N", "Show at most so many ranges of each mapping.");
  options.Add("json", &json, "", "As one JSON object.");
  int exit_status = 0;
  auto parsed = ParseOrExit("diff", options, arguments, false, &exit_status);
  if (!parsed) return exit_status;
  std::vector<std::string>& operands = parsed->operands;
  if (operands.size() < 2) return UsageError("diff", "between which two snapshots?");
  const std::string second = std::move(operands.back());
  operands.pop_back();
  const std::string first = std::move(operands.back());
  operands.pop_back();
  const auto trace = OpenTraceOperand("diff", *parsed, choice, &exit_status);
  if (trace == nullptr) return exit_status;
  const std::vector<SnapshotInfo> snapshots = ListSnapshots(*trace);
  const auto from = FindSnapshot(snapshots, first), to = FindSnapshot(snapshots, second);
  if (!from.ok()) return Failure(from.status());
  if (!to.ok()) return Failure(to.status());
  SnapshotView before(trace.get(), snapshots), after(trace.get(), snapshots);
  before.GoTo(*from);
  after.GoTo(*to);
  for (const SnapshotView* view : {&before, &after}) {
    if (const std::string missing = view->Missing(); !missing.empty()) PrintError(missing);
  }
  const SnapshotDifference difference = Compare(*trace, &before, &after);
  const bool printed =
      Print(json ? DiffJson(difference, most_ranges) : DiffText(difference, most_ranges));
  return printed ? 0 : kExitFailure;
}

}  // namespace hindsight
