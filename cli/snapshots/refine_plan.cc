#include "cli/snapshots/refine_plan.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "cli/snapshots/variables.h"
#include "keyframes/inspect/snapshot_view.h"
#include "keyframes/inspect/state_edits.h"
#include "keyframes/state/snapshot_list.h"
#include "recorder/snapshot/points/point.h"

namespace hindsight {
namespace {

constexpr uint64_t kCall = 1, kPoint = 2, kCondition = 3, kAssertion = 4, kException = 5,
                   kSignal = 6, kTimer = 7, kFunction = 8, kOutside = 9;

bool ByTime(const SnapshotInfo& snapshot) {
  return snapshot.trigger == kTimer || snapshot.trigger == kOutside || snapshot.trigger == 0;
}

SnapshotCause CauseOf(const TraceReader& trace, const SnapshotInfo& snapshot) {
  SnapshotCause cause = {.trigger = static_cast<uint32_t>(snapshot.trigger),
                         .thread = snapshot.thread,
                         .level = static_cast<int32_t>(snapshot.level),
                         .class_number = static_cast<uint32_t>(snapshot.class_number),
                         .id = static_cast<uint32_t>(snapshot.id),
                         .text = ""};
  for (const ProcessEvent& event : trace.events()) {
    if (event.kind == EventKind::kSnapshot &&
        event.number == static_cast<int64_t>(snapshot.number)) {
      cause.text = event.text;
    }
  }
  return cause;
}

class Planner {
 public:
  Planner(const TraceReader& trace, const RefineChoice& choice)
      : trace_(trace), choice_(choice), snapshots_(ListSnapshots(trace)) {}

  absl::StatusOr<RefinePlan> Run() {
    if (snapshots_.empty()) return absl::NotFoundError("the trace has no snapshot");
    ASSIGN_OR_RETURN(from_, FindSnapshot(snapshots_, choice_.from));
    plan_.from = snapshots_[from_].keyframe;
    SnapshotOptions& snapshots = plan_.options.snapshots;
    snapshots.directory = choice_.directory;
    snapshots.configuration = choice_.configuration;
    snapshots.max_copy_bytes = choice_.max_memory;
    snapshots.earlier_arrivals = snapshots_[from_].arrivals;
    plan_.options.force = choice_.force;
    plan_.options.earlier_control = ControlFileOf(*plan_.from);
    plan_.listens = !choice_.record || choice_.captures || !choice_.to.empty();
    if (!choice_.to.empty()) RETURN_IF_ERROR(PlanTarget());
    RETURN_IF_ERROR(PlanKept());
    RETURN_IF_ERROR(PlanSet());
    if (!choice_.edits.empty()) RETURN_IF_ERROR(PlanEdits());
    return std::move(plan_);
  }

 private:
  absl::Status PlanTarget();
  absl::Status PlanKept();
  absl::Status PlanSet();
  absl::Status PlanEdits();
  absl::Status PlanRegister(const RegisterEdit& edit);
  absl::Status CheckCounting() const;
  bool PlacesCountAlike() const;
  void PlanTime();
  void OnlyTarget();

  const TraceReader& trace_;
  const RefineChoice& choice_;
  const std::vector<SnapshotInfo> snapshots_;
  size_t from_ = 0, to_ = 0;
  RefinePlan plan_;
};

// The time that the program ran between the two, without that in which it stood still.
void Planner::PlanTime() {
  uint64_t elapsed_ns = snapshots_[to_].time_ns - snapshots_[from_].time_ns;
  for (size_t i = from_; i < to_; ++i) {
    elapsed_ns -= std::min(elapsed_ns, snapshots_[i].stop_ns);
  }
  elapsed_ns = std::max<uint64_t>(elapsed_ns, 1);
  plan_.options.target->elapsed_ns = elapsed_ns;
  absl::Duration& every = plan_.options.snapshots.configuration.every;
  if (every == absl::ZeroDuration()) {
    every = absl::Nanoseconds(static_cast<int64_t>(elapsed_ns));
  }
}

// A full keyframe at every point would be too many where nobody asked for them.
void Planner::OnlyTarget() {
  PointFilter& points = plan_.options.snapshots.configuration.points;
  const uint64_t trigger = plan_.options.target->cause.trigger;
  points.calls = trigger == kCall;
  points.points = trigger == kPoint;
  points.conditions = trigger == kCondition;
  points.assertions = trigger == kAssertion;
  if (!points.points) return;
  points.minimum_level = plan_.options.target->cause.level;
  const uint32_t class_number = plan_.options.target->cause.class_number;
  const uint32_t id = plan_.options.target->cause.id;
  points.classes = {{class_number, class_number}};
  points.ids = {{id, id}};
}

absl::Status Planner::PlanTarget() {
  ASSIGN_OR_RETURN(to_, FindSnapshot(snapshots_, choice_.to));
  if (to_ <= from_) return absl::InvalidArgumentError("--to must be a later snapshot than --from");
  RefineTarget& target = plan_.options.target.emplace();
  target.cause = CauseOf(trace_, snapshots_[to_]);
  target.by_time = ByTime(snapshots_[to_]);
  if (target.by_time && choice_.record) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--record needs a --to that a point, a signal or a function triggered, or none: snapshot ",
        snapshots_[to_].number, " is of a moment, and recording takes longer than running"));
  }
  if (target.by_time) {
    PlanTime();
    return absl::OkStatus();
  }
  target.arrivals = 0;
  for (size_t i = from_ + 1; i <= to_; ++i) {
    target.arrivals += IsSameCause(CauseOf(trace_, snapshots_[i]), target.cause);
  }
  CaptureConfiguration& configuration = plan_.options.snapshots.configuration;
  if (choice_.record && !choice_.captures) OnlyTarget();
  const std::string& label = snapshots_[to_].label;
  if (target.cause.trigger == kException) configuration.points.exceptions.push_back(label);
  if (target.cause.trigger == kSignal) {
    configuration.signals.push_back(static_cast<int>(target.cause.id));
  }
  if (target.cause.trigger == kFunction) configuration.functions.push_back(label);
  return CheckCounting();
}

// Whether of the arrivals at places from N to M those pass that passed then. By their numbers,
// which count the arrivals at all places, from the program's start.
bool Planner::PlacesCountAlike() const {
  const CaptureConfiguration& configuration = plan_.options.snapshots.configuration;
  const PointFilter& filter = configuration.points;
  const uint64_t first = snapshots_[from_].arrivals, end = snapshots_[to_].arrivals;
  if (end <= first) return true;  // the trace does not say
  if (filter.interval > absl::ZeroDuration()) return false;
  // A recording counts from N on.
  const uint64_t skip = filter.skip + (choice_.record ? first : 0);
  const uint64_t stride = std::max<uint64_t>(filter.stride, 1);
  const auto passing = [&](uint64_t number) {  // of those below
    return number <= skip ? 0 : (number - skip + stride - 1) / stride;
  };
  std::set<std::string> places;
  uint64_t passed = 0;
  for (size_t i = 0; i < snapshots_.size(); ++i) {
    if (snapshots_[i].trigger != kFunction) continue;
    places.insert(snapshots_[i].label);
    if (i <= from_ || i > to_) continue;
    const uint64_t arrivals = snapshots_[i].arrivals;
    if (passing(arrivals) == passing(arrivals - 1)) return false;
    ++passed;
  }
  if (passing(end) - passing(first) != passed) return false;
  // Where some are left out, they are counted at all places together.
  const std::vector<std::string>& functions = configuration.functions;
  return passed == end - first ||
         places == std::set<std::string>(functions.begin(), functions.end());
}

absl::Status Planner::CheckCounting() const {
  const uint64_t trigger = plan_.options.target->cause.trigger;
  const PointFilter& filter = plan_.options.snapshots.configuration.points;
  bool alike = true;
  if (trigger >= kCall && trigger <= kException) {
    RETURN_IF_ERROR(FilterFits(filter));
    alike = CountAlike(plan_.options.earlier_control, filter);
  } else if (trigger == kFunction) {
    alike = PlacesCountAlike();
  }
  if (alike) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "snapshot ", snapshots_[to_].number, " is found by counting from ", snapshots_[from_].number,
      ": --skip, --stride and --interval, and what they count, must leave out the same as then"));
}

absl::Status Planner::PlanKept() {
  if (choice_.keep.empty()) return absl::OkStatus();
  if (!plan_.options.target.has_value()) {
    return absl::InvalidArgumentError("--keep needs --to: with what is it to be compared?");
  }
  SnapshotView view(&trace_, snapshots_);
  view.GoTo(to_);
  for (const std::string& text : choice_.keep) {
    ASSIGN_OR_RETURN(const Variable variable, FindVariable(trace_, *view.here().keyframe, text));
    ExpectedBytes expected = {variable.name, variable.address,
                              std::vector<uint8_t>(variable.size_bytes)};
    const auto read = view.ReadMemory(0, variable.address, absl::MakeSpan(expected.bytes));
    if (!read.ok() || *read < variable.size_bytes) {
      return absl::NotFoundError(
          absl::StrCat(text, ": snapshot ", snapshots_[to_].number, " does not have its memory"));
    }
    plan_.options.expected.push_back(std::move(expected));
  }
  return absl::OkStatus();
}

absl::Status Planner::PlanSet() {
  for (const std::string& text : choice_.set) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat("--set: ", text, " is not VARIABLE=VALUE"));
    }
    ASSIGN_OR_RETURN(const Variable variable,
                     FindVariable(trace_, *plan_.from, text.substr(0, equals)));
    ASSIGN_OR_RETURN(std::vector<uint8_t> bytes,
                     ParseBytes(text.substr(equals + 1), variable.size_bytes));
    plan_.options.memory.push_back({variable.address, std::move(bytes)});
  }
  return absl::OkStatus();
}

absl::Status Planner::PlanRegister(const RegisterEdit& edit) {
  std::vector<RegistersChange>& changes = plan_.options.registers;
  auto change = std::find_if(changes.begin(), changes.end(), [&](const auto& candidate) {
    return candidate.thread == edit.thread;
  });
  if (change == changes.end()) {
    SnapshotView view(&trace_, snapshots_);
    view.GoTo(from_);
    ASSIGN_OR_RETURN(const RegisterFile registers, view.Registers(edit.thread));
    change = changes.insert(changes.end(), {edit.thread, registers});
  }
  Apply(edit, &change->registers);
  return absl::OkStatus();
}

absl::Status Planner::PlanEdits() {
  std::ifstream file(choice_.edits);
  if (!file) return absl::NotFoundError(absl::StrCat(choice_.edits, ": cannot be read"));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const absl::StatusOr<StateEdits> edits = ParseEdits(text);
  if (!edits.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(choice_.edits, ": ", edits.status().message()));
  }
  if (edits->uuid != trace_.manifest().uuid || edits->snapshot != snapshots_[from_].number) {
    return absl::InvalidArgumentError(absl::StrCat(
        choice_.edits, ": the edits are of ",
        edits->uuid != trace_.manifest().uuid ? "another trace"
                                              : absl::StrCat("snapshot ", edits->snapshot)));
  }
  for (const MemoryEdit& edit : edits->memory) {
    plan_.options.memory.push_back({edit.address, {edit.bytes.begin(), edit.bytes.end()}});
  }
  for (const RegisterEdit& edit : edits->registers) RETURN_IF_ERROR(PlanRegister(edit));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RefinePlan> PlanRefinement(const TraceReader& trace, const RefineChoice& choice) {
  return Planner(trace, choice).Run();
}

}  // namespace hindsight
