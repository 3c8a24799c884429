#include "cli/info/trace_summary.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "keyframes/state/order_index.h"
#include "keyframes/state/thread_state.h"

namespace hindsight {
namespace {

constexpr uint64_t kUnknownCpu = ~uint64_t{0};

// What the events say about one thread.
struct ThreadEvents {
  ThreadSummary summary;
  uint64_t signals = 0;
  std::vector<const ProcessEvent*> events;
};
using ByThread = absl::flat_hash_map<int32_t, ThreadEvents>;

// Adds up slices: the event of the next one has the end of each.
class SliceTimes {
 public:
  void Add(const ProcessEvent& slice, ByThread* threads) {
    const std::vector<uint64_t>& arguments = slice.arguments;
    if (arguments.size() < 3) return;
    End(arguments[1], threads);
    running_ = slice.thread;
    resumed_ns_ = arguments[0];
    ThreadSummary& thread = (*threads)[slice.thread].summary;
    ++thread.slices;
    if (arguments[2] != kUnknownCpu) thread.cpus.insert(arguments[2]);
  }
  void End(uint64_t end_ns, ByThread* threads) {
    if (running_ != 0 && end_ns > resumed_ns_) {
      (*threads)[running_].summary.running_ns += end_ns - resumed_ns_;
    }
    running_ = 0;
  }

 private:
  int32_t running_ = 0;
  uint64_t resumed_ns_ = 0;
};

void AddSchedule(const ProcessEvent& event, ThreadSummary* thread) {
  if (event.arguments.size() < 3) return;
  ++thread->moves;
  thread->cpus.insert({event.arguments[1], event.arguments[2]});
}

void AddEvent(const ProcessEvent& event, SliceTimes* times, ByThread* threads,
              TraceSummary* summary) {
  ThreadEvents& thread = (*threads)[event.thread];
  if (event.thread != 0) thread.events.push_back(&event);
  if (event.sequence != 0) ++summary->kernel_events;
  switch (event.kind) {
    case EventKind::kSyscall:
      ++summary->syscalls;
      break;
    case EventKind::kSignal:
      ++summary->signals;
      ++thread.signals;
      break;
    case EventKind::kExec:
      ++summary->execs;
      if (!event.text.empty()) summary->program = event.text;
      break;
    case EventKind::kFork:
      ++summary->forks;
      break;
    case EventKind::kGap:
      summary->gaps.push_back({event.thread, event.count, event.text});
      break;
    case EventKind::kThreadStart:
    case EventKind::kThreadName:
      if (!event.text.empty()) thread.summary.name = event.text;
      break;
    case EventKind::kSlice:
      ++summary->slices;
      times->Add(event, threads);
      break;
    case EventKind::kSchedule:
      AddSchedule(event, &thread.summary);
      break;
    default:
      break;
  }
}

// Signals, and gaps that something follows, move a thread from one state to the next without an
// instruction.
void FinishThread(const TraceReader& trace, const SummaryOptions& options,
                  const std::shared_ptr<OrderIndex>& order, ThreadEvents* thread) {
  ThreadSummary& summary = thread->summary;
  summary.segments = trace.segments(summary.thread).size();
  // Events of an interrupted trace may go further than its segments.
  const bool complete = trace.manifest().state == TraceState::kComplete;
  const auto state =
      ThreadState::Create(&trace, summary.thread, thread->events, order, /*trust_exit=*/complete);
  if (!state.ok()) return;
  const uint64_t states = state->end_count() - state->begin_count();
  const uint64_t gaps = std::count_if(
      thread->events.begin(), thread->events.end(), [&state](const ProcessEvent* event) {
        return event->kind == EventKind::kGap && event->count < state->end_count();
      });
  summary.instructions = states - std::min(states, thread->signals + gaps);
  if (!options.positions) return;
  summary.start = state->PositionAt(state->begin_count());
  summary.end = state->PositionAt(state->end_count());
}

}  // namespace

TraceSummary Summarize(const TraceReader& trace, const SummaryOptions& options) {
  const Manifest& manifest = trace.manifest();
  TraceSummary summary;
  summary.program = manifest.program;
  ByThread threads;
  SliceTimes times;
  for (const ProcessEvent& event : trace.events()) AddEvent(event, &times, &threads, &summary);
  times.End(options.end_ns, &threads);
  const auto order = std::make_shared<OrderIndex>(&trace);
  for (const int32_t id : trace.threads()) {
    ThreadEvents& thread = threads[id];
    thread.summary.thread = id;
    FinishThread(trace, options, order, &thread);
    summary.segments += thread.summary.segments;
    summary.instructions += thread.summary.instructions;
    summary.threads.push_back(std::move(thread.summary));
  }
  // The recorder's own count includes what events do not show; an interrupted trace has none.
  summary.kernel_events = std::max(summary.kernel_events, manifest.ordered_kernel_events);
  if (manifest.state == TraceState::kComplete || manifest.memory_model == "kernel") {
    summary.ordered_instructions = manifest.ordered_instructions;
  }
  return summary;
}

}  // namespace hindsight
