#include "keyframes/state/order_index.h"

#include <algorithm>
#include <iterator>
#include <variant>

namespace hindsight {
namespace {

// Of 16 bytes an instruction; a segment has at most some millions.
constexpr size_t kKeptSegments = 16;
// One of a trace made for it may have 32 million: then it is kept alone.
constexpr size_t kKeptPoints = 16'000'000;

// A finished trace says whether it has any; of one cut short it is not known.
bool MayHaveInstructions(const Manifest& manifest) {
  if (manifest.memory_model == "kernel") return false;
  return manifest.state != TraceState::kComplete || manifest.ordered_instructions > 0;
}

}  // namespace

OrderIndex::OrderIndex(const TraceReader* trace)
    : trace_(trace), any_(MayHaveInstructions(trace->manifest())) {}

std::shared_ptr<const OrderIndex::Points> OrderIndex::Of(int32_t thread, uint64_t segment) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto it = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.thread == thread && entry.segment == segment;
  });
  if (it != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, it);
    return it->points;
  }
  auto points = std::make_shared<Points>();
  auto loaded = trace_->LoadSegment(thread, segment);
  if (loaded.ok()) {
    for (const Record& record : (*loaded)->records()) {
      const auto* effect = std::get_if<SideEffect>(&record.body);
      // One that was not emulated. (System calls are among the events.)
      if (effect != nullptr && effect->kind == SideEffectKind::kInstruction &&
          effect->sequence != 0) {
        points->push_back({effect->sequence, record.count + 1});
      }
      const auto* run = std::get_if<OrderRun>(&record.body);
      if (run == nullptr) continue;
      for (size_t i = 0; i < run->counts.size(); ++i) {
        points->push_back({run->first_sequence + i, run->counts[i] + 1});
      }
    }
  }
  // What breaks the order in a damaged trace would make positions ambiguous.
  auto bad = [](const SequencePoint& a, const SequencePoint& b) {
    return b.sequence <= a.sequence || b.count <= a.count;
  };
  points->erase(std::unique(points->begin(), points->end(), bad), points->end());
  entries_.push_front({thread, segment, points});
  size_t kept = 0;
  for (const Entry& entry : entries_) kept += entry.points->size();
  while (entries_.size() > kKeptSegments || (entries_.size() > 1 && kept > kKeptPoints)) {
    kept -= entries_.back().points->size();
    entries_.pop_back();
  }
  return points;
}

}  // namespace hindsight
