#include "keyframes/verify/verify_snapshots.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "isa/registers.h"
#include "keyframes/verify/live_ring.h"
#include "keyframes/verify/verify_totals.h"

namespace hindsight {
namespace {

class Check {
 public:
  Check(const TraceReader& trace, const std::atomic<bool>* interrupt, SnapshotsVerified* result)
      : trace_(trace), interrupt_(interrupt), result_(result) {}

  absl::Status Run(const std::function<void(uint64_t)>& progress) {
    absl::Status first;
    for (const absl::Status& damage : trace_.damage()) first.Update(damage);
    first.Update(CheckNumbers());
    for (const auto& keyframe : trace_.full_keyframes()) {
      const absl::Status status = CheckSnapshot(*keyframe);
      if (absl::IsCancelled(status)) return status;
      if (HasGone(trace_, status)) continue;
      if (!status.ok()) result_->damaged.push_back(keyframe->number());
      first.Update(status);
      ++result_->snapshots;
      if (progress) progress(result_->snapshots);
    }
    first.Update(CheckEvents());
    std::sort(result_->damaged.begin(), result_->damaged.end());
    first.Update(CheckModules());
    result_->no_totals = ReasonForNoTotals(trace_.manifest());
    if (result_->no_totals.empty()) first.Update(CheckTotals(trace_, {}));
    return first;
  }

 private:
  std::string File(uint64_t number) const {
    return absl::StrCat(trace_.directory(), "/full/", number);
  }
  absl::Status Wrong(const FullKeyframe& keyframe, const std::string& what) const {
    return absl::DataLossError(absl::StrCat(File(keyframe.number()), ": ", what));
  }

  // From 1, unless the oldest were given up, and without gaps.
  absl::Status CheckNumbers() const {
    uint64_t next = trace_.trimmed() == nullptr ? 1 : trace_.trimmed()->oldest_keyframe;
    for (const auto& keyframe : trace_.full_keyframes()) {
      if (keyframe->number() != next) {
        return absl::DataLossError(absl::StrCat(File(next), ": is missing"));
      }
      ++next;
    }
    return absl::OkStatus();
  }

  absl::Status CheckSnapshot(const FullKeyframe& keyframe) {
    RETURN_IF_ERROR(keyframe.CheckFile());
    RETURN_IF_ERROR(CheckThreads(keyframe));
    RETURN_IF_ERROR(CheckMaps(keyframe));
    return CheckPages(keyframe);
  }

  absl::Status CheckThreads(const FullKeyframe& keyframe) {
    if (keyframe.threads().empty()) return Wrong(keyframe, "has no threads");
    std::set<int32_t> seen;
    RegisterFile registers;
    for (const FullKeyframe::ThreadState& state : keyframe.threads()) {
      const auto wrong = [&](const char* what) {
        return Wrong(keyframe, absl::StrCat("thread ", state.thread, " ", what));
      };
      if (!seen.insert(state.thread).second) return wrong("is in it twice");
      if (state.registers.empty() || !FromWords(state.registers, &registers)) {
        return wrong("has no registers, or of another layout");
      }
      ++result_->threads;
    }
    result_->kernel_states += keyframe.kernel_state() != nullptr;
    return absl::OkStatus();
  }

  absl::Status CheckMaps(const FullKeyframe& keyframe) const {
    uint64_t end = 0;
    for (const MapRegion& region : keyframe.maps()) {
      const auto wrong = [&](const char* what) {
        return Wrong(keyframe,
                     absl::StrCat("the mapping at 0x", absl::Hex(region.start), " ", what));
      };
      if (region.start < end || region.end <= region.start || region.start % kPageBytes != 0 ||
          region.end % kPageBytes != 0) {
        return wrong("is impossible");
      }
      if (region.module >= 0 && !trace_.modules().contains(region.module)) {
        return wrong("is of a module not listed");
      }
      end = region.end;
    }
    return keyframe.maps().empty() ? Wrong(keyframe, "has no memory map") : absl::OkStatus();
  }

  absl::Status CheckPages(const FullKeyframe& keyframe) {
    std::array<uint8_t, kPageBytes> bytes;
    auto region = keyframe.maps().begin();
    for (const uint64_t page : keyframe.page_addresses()) {
      if (interrupt_ != nullptr && interrupt_->load()) {
        return absl::CancelledError("verification was interrupted");
      }
      while (region != keyframe.maps().end() && region->end <= page) ++region;
      if (region == keyframe.maps().end() || page < region->start) {
        return Wrong(keyframe, absl::StrCat("page 0x", absl::Hex(page), " is not mapped"));
      }
      const absl::Status read = keyframe.ReadPage(page, absl::MakeSpan(bytes));
      if (HasGone(trace_, read)) return read;
      if (!read.ok()) {
        return Wrong(keyframe, absl::StrCat("page 0x", absl::Hex(page), ": ", read.message()));
      }
      ++result_->pages;
    }
    CountUnseen(keyframe);
    return absl::OkStatus();
  }

  void CountUnseen(const FullKeyframe& keyframe) const {
    // Reserved address space may be terabytes.
    constexpr uint64_t kMostBytes = uint64_t{16} << 30;
    const absl::Span<const uint64_t> pages = keyframe.page_addresses();
    for (const MapRegion& region : keyframe.maps()) {
      uint64_t unseen = 0;
      if (region.end - region.start > kMostBytes) continue;
      for (uint64_t page = region.start; page < region.end; page += kPageBytes) {
        unseen += (region.shared || !keyframe.SawAllAt(page)) &&
                  !std::binary_search(pages.begin(), pages.end(), page);
      }
      result_->unseen_pages += unseen;
    }
  }

  // Kind 3 and right after it 17, of each snapshot.
  absl::Status CheckEvents() {
    const std::vector<ProcessEvent>& events = trace_.events();
    std::map<uint64_t, uint64_t> of_snapshots;
    absl::Status first;
    for (size_t i = 0; i < events.size(); ++i) {
      ++result_->events;
      const auto wrong = [&](const char* what) {
        return absl::DataLossError(absl::StrCat(trace_.directory(), "/events: event ", i,
                                                ", of snapshot ", events[i].number, ", ", what));
      };
      if (events[i].kind != EventKind::kSnapshot) continue;
      const uint64_t number = static_cast<uint64_t>(events[i].number);
      if (++of_snapshots[number] > 1) return wrong("is there twice");
      const FullKeyframe* keyframe = Keyframe(number);
      if (keyframe == nullptr) {
        result_->damaged.push_back(number);
        first.Update(
            absl::DataLossError(absl::StrCat(File(number), ": is missing, but has an event")));
        continue;
      }
      const bool announced = i > 0 && events[i - 1].kind == EventKind::kFullKeyframe &&
                             events[i - 1].number == events[i].number;
      if (!announced) return wrong("does not follow that of its full keyframe");
      if (events[i].arguments.size() < 8) return wrong("lacks arguments");
    }
    first.Update(CheckAllHaveEvents(of_snapshots));
    return first;
  }

  // Who is killed between a snapshot and its events leaves one without.
  absl::Status CheckAllHaveEvents(const std::map<uint64_t, uint64_t>& of_snapshots) const {
    const bool complete = trace_.manifest().state == TraceState::kComplete;
    for (const auto& keyframe : trace_.full_keyframes()) {
      const bool last = keyframe == trace_.full_keyframes().back();
      if (of_snapshots.empty() || of_snapshots.contains(keyframe->number())) continue;
      if (last && !complete) continue;
      return Wrong(*keyframe, "has no event in the trace's events");
    }
    if (!of_snapshots.empty() || trace_.full_keyframes().size() <= 1 || !complete) {
      return absl::OkStatus();
    }
    return absl::DataLossError(
        absl::StrCat(trace_.directory(), "/events: none of the snapshots has an event"));
  }

  const FullKeyframe* Keyframe(uint64_t number) const {
    for (const auto& keyframe : trace_.full_keyframes()) {
      if (keyframe->number() == number) return keyframe.get();
    }
    return nullptr;
  }

  absl::Status CheckModules() {
    for (const auto& [index, module] : trace_.modules()) {
      if (!module.stored) {
        ++result_->modules_not_stored;
        continue;
      }
      const absl::Status read = trace_.ModuleBytes(index).status();
      if (HasGone(trace_, read)) continue;
      RETURN_IF_ERROR(read);
      ++result_->modules;
    }
    return absl::OkStatus();
  }

  const TraceReader& trace_;
  const std::atomic<bool>* interrupt_;
  SnapshotsVerified* result_;
};

}  // namespace

absl::StatusOr<SnapshotsVerified> VerifySnapshots(const TraceReader& trace,
                                                  const std::function<void(uint64_t)>& progress,
                                                  const std::atomic<bool>* interrupt) {
  const auto start = std::chrono::steady_clock::now();
  SnapshotsVerified result;
  const absl::Status status = Check(trace, interrupt, &result).Run(progress);
  if (absl::IsCancelled(status)) return status;
  result.difference = status;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace hindsight
