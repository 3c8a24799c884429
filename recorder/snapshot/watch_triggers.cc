#include "recorder/snapshot/watch_triggers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "recorder/process/signal_sets.h"
#include "recorder/snapshot/points/point.h"

namespace hindsight {
namespace {

// A thread that waits for a child made by vfork goes on once that executes a program.
constexpr std::chrono::milliseconds kPatience(1000);

// Arrivals that do not pass must not keep the caller from all else.
constexpr int kMostAtOnce = 64;

}  // namespace

absl::StatusOr<std::unique_ptr<WatchTriggers>> WatchTriggers::Make(
    const CaptureConfiguration& configuration, DisturbedCalls* calls, Stragglers* stragglers,
    uint64_t arrivals) {
  if (configuration.signals.empty() && configuration.functions.empty()) return nullptr;
  ASSIGN_OR_RETURN(NamedPlaces places, NamedPlaces::Parse(configuration.functions));
  return std::unique_ptr<WatchTriggers>(
      new WatchTriggers(configuration, calls, stragglers, std::move(places), arrivals));
}

absl::Status WatchTriggers::Start(pid_t process, Process state) {
  process_ = process;
  WatchedProcess::Wishes wishes;
  wishes.before_exec = state == Process::kBeforeExec;
  wishes.stopped = state == Process::kStopped;
  wishes.calls = calls_;
  wishes.stragglers = stragglers_;
  wishes.signals.insert(configuration_.signals.begin(), configuration_.signals.end());
  if (!places_.empty()) wishes.find_places = [this] { return FindPlaces(); };
  ASSIGN_OR_RETURN(watched_, WatchedProcess::Seize(process, std::move(wishes)));
  return absl::OkStatus();
}

WatchedProcess::Places WatchTriggers::FindPlaces() {
  const MemoryMap map = MemoryMap::OfProcess(absl::StrCat("/proc/", process_, "/maps"));
  NamedPlaces::Found found = places_.Find(map, process_);
  WatchedProcess::Places places;
  for (auto& [address, name] : found.names) {
    places.stops.insert(address);
    texts_[address] = std::move(name);
  }
  places.hooks = std::move(found.hooks);
  return places;
}

bool WatchTriggers::ArrivalPasses() {
  const PointFilter& filter = configuration_.points;
  if (!interval_over()) return false;
  const uint64_t number = arrivals_++;
  if (number < filter.skip || (number - filter.skip) % std::max<uint64_t>(filter.stride, 1) != 0) {
    return false;
  }
  next_ = Clock::now() + absl::ToChronoNanoseconds(filter.interval);
  return true;
}

std::optional<SnapshotCause> WatchTriggers::Next() {
  busy_ = false;
  if (watched_ == nullptr) return std::nullopt;
  for (int passed = 0; const std::optional<WatchEvent> event = watched_->Next(); ++passed) {
    if (event->address == 0) {
      return SnapshotCause{.trigger = static_cast<uint32_t>(Trigger::kSignal),
                           .thread = event->thread,
                           .id = static_cast<uint32_t>(event->signal),
                           .text = absl::StrCat("label=", SignalName(event->signal), "\n"),
                           .signal_info = event->signal_info};
    }
    if (ArrivalPasses()) {
      return SnapshotCause{.trigger = static_cast<uint32_t>(Trigger::kFunction),
                           .thread = event->thread,
                           .text = absl::StrCat("label=", texts_[event->address], "\n")};
    }
    watched_->Pass(event->thread);
    busy_ = passed >= kMostAtOnce;
    if (busy_) break;
  }
  return std::nullopt;
}

StopMaker WatchTriggers::MakeStop() {
  return [this]() -> absl::StatusOr<std::unique_ptr<ProcessStop>> {
    if (watched_ == nullptr) return absl::NotFoundError("the process is watched no more");
    return watched_->Stop(kPatience);
  };
}

void WatchTriggers::Pass(pid_t thread) {
  if (watched_ != nullptr) watched_->Pass(thread);
}

// Until the interval is over nobody needs to stop.
void WatchTriggers::GoOn() {
  if (watched_ == nullptr) return;
  watched_->Resume();
  watched_->UseStops(interval_over());
}

int WatchTriggers::WaitMs() const {
  if (busy_ || (watched_ != nullptr && watched_->more())) return 0;
  if (watched_ == nullptr || interval_over()) return -1;
  return static_cast<int>(
      std::chrono::ceil<std::chrono::milliseconds>(next_ - Clock::now()).count());
}

std::vector<std::string> WatchTriggers::Problems() const {
  std::vector<std::string> problems;
  for (const std::string& problem : places_.Problems()) {
    problems.push_back(absl::StrCat("--at=", problem));
  }
  if (watched_ == nullptr) return problems;
  for (const uint64_t address : watched_->refused()) {
    const auto text = texts_.find(address);
    if (text == texts_.end()) continue;
    problems.push_back(
        absl::StrCat("--at=", text->second, ": a system call, or code that cannot be changed"));
  }
  return problems;
}

}  // namespace hindsight
