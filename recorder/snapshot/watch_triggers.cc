#include "recorder/snapshot/watch_triggers.h"

#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "recorder/snapshot/points/point.h"

namespace hindsight {
namespace {

// A thread that waits for a child made by vfork goes on once that executes a program.
constexpr std::chrono::milliseconds kPatience(1000);

// Arrivals that do not pass must not keep the caller from all else.
constexpr int kMostAtOnce = 64;

std::string SignalLabel(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? absl::StrCat("label=signal ", signal, "\n")
                         : absl::StrCat("label=SIG", name, "\n");
}

}  // namespace

absl::StatusOr<std::unique_ptr<WatchTriggers>> WatchTriggers::Make(
    const CaptureConfiguration& configuration, DisturbedCalls* calls) {
  if (configuration.signals.empty() && configuration.functions.empty()) return nullptr;
  auto triggers = std::unique_ptr<WatchTriggers>(new WatchTriggers(configuration, calls));
  for (const std::string& text : configuration.functions) {
    ASSIGN_OR_RETURN(CodePlace place, ParseCodePlace(text));
    triggers->places_.push_back(std::move(place));
  }
  return triggers;
}

absl::Status WatchTriggers::Start(pid_t process, bool before_exec) {
  process_ = process;
  WatchedProcess::Wishes wishes;
  wishes.before_exec = before_exec;
  wishes.calls = calls_;
  wishes.signals.insert(configuration_.signals.begin(), configuration_.signals.end());
  if (!places_.empty()) wishes.find_places = [this] { return FindPlaces(); };
  ASSIGN_OR_RETURN(watched_, WatchedProcess::Seize(process, std::move(wishes)));
  return absl::OkStatus();
}

WatchedProcess::Places WatchTriggers::FindPlaces() {
  const MemoryMap map = MemoryMap::OfProcess(absl::StrCat("/proc/", process_, "/maps"));
  const std::string root = absl::StrCat("/proc/", process_, "/root");
  WatchedProcess::Places places;
  for (const CodePlace& place : places_) {
    for (const uint64_t address : symbols_.Find(place, map, root)) {
      const MapRegion* const region = map.Find(address);
      if (region == nullptr || (region->protection & PROT_EXEC) == 0) continue;
      places.stops.insert(address);
      texts_[address] = place.text;
      found_.insert(place.text);
    }
    if (found_.count(place.text) != 0) continue;
    not_found_[place.text] = place.function.empty()
                                 ? absl::StrCat(place.text, ": no code is mapped there")
                                 : std::string(symbols_.NotFound(place, map, root).message());
  }
  const std::vector<uint64_t> hooks = symbols_.LinkerHooks(map, root);
  places.hooks.insert(hooks.begin(), hooks.end());
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
                           .text = SignalLabel(event->signal),
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
  if (busy_) return 0;
  if (watched_ == nullptr || interval_over()) return -1;
  return static_cast<int>(
      std::chrono::ceil<std::chrono::milliseconds>(next_ - Clock::now()).count());
}

std::vector<std::string> WatchTriggers::Problems() const {
  std::vector<std::string> problems;
  for (const CodePlace& place : places_) {
    const auto why = not_found_.find(place.text);
    if (found_.count(place.text) != 0) continue;
    problems.push_back(absl::StrCat("--at=", why == not_found_.end() ? place.text : why->second));
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
