#include "tracefmt/kernel_state_codec.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "tracefmt/storage/message.h"

namespace hindsight {
namespace {

// In the order of the list `layout`.
constexpr uint64_t MemoryLayout::*kLayout[] = {
    &MemoryLayout::code_start,        &MemoryLayout::code_end,        &MemoryLayout::data_start,
    &MemoryLayout::data_end,          &MemoryLayout::brk_start,       &MemoryLayout::brk,
    &MemoryLayout::stack_start,       &MemoryLayout::arguments_start, &MemoryLayout::arguments_end,
    &MemoryLayout::environment_start, &MemoryLayout::environment_end,
};

template <typename Builder>
void FillTexts(Builder to, const std::vector<std::string>& from) {
  for (size_t i = 0; i < from.size(); ++i) to.set(static_cast<uint32_t>(i), AsData(from[i]));
}

void Build(const ThreadKernelState& from, wire::ThreadKernelState::Builder to) {
  to.setThread(from.thread);
  to.setName(AsData(from.name));
  to.setBlocked(from.blocked);
  to.setPending(from.pending);
  FillTexts(to.initSiginfos(static_cast<uint32_t>(from.siginfos.size())), from.siginfos);
  to.setSystemCall(from.system_call);
  to.setHasSignalStack(from.has_signal_stack);
  to.setSignalStackBase(from.signal_stack_base);
  to.setSignalStackBytes(from.signal_stack_bytes);
  to.setSignalStackFlags(from.signal_stack_flags);
  to.setRobustList(from.robust_list);
  to.setRobustListBytes(from.robust_list_bytes);
  to.setHasClearTid(from.clear_tid.has_value());
  to.setClearTid(from.clear_tid.value_or(0));
  to.setRseq(from.rseq);
  to.setRseqBytes(from.rseq_bytes);
  to.setRseqSignature(from.rseq_signature);
  to.setRseqFlags(from.rseq_flags);
  to.setPolicy(from.policy);
  to.setPriority(from.priority);
  to.setNice(from.nice);
  FillList(to.initProcessors(static_cast<uint32_t>(from.processors.size())), from.processors);
}

void Build(const OpenDescriptor& from, wire::OpenDescriptor::Builder to) {
  to.setFd(from.fd);
  to.setKind(static_cast<uint16_t>(from.kind));
  to.setPath(AsData(from.path));
  to.setOffset(from.offset);
  to.setFlags(from.flags);
  to.setCloseOnExec(from.close_on_exec);
  to.setMode(from.mode);
  to.setDevice(from.device);
  to.setInode(from.inode);
  to.setSpecialDevice(from.special_device);
  to.setSizeBytes(from.size_bytes);
  to.setSameAs(from.same_as);
  to.setDetails(AsData(from.details));
  to.setHasUnread(from.unread.has_value());
  if (from.unread.has_value()) to.setUnread(AsData(*from.unread));
}

void Build(const SignalHandling& from, wire::SignalHandling::Builder to) {
  to.setHandler(from.handler);
  to.setFlags(from.flags);
  to.setRestorer(from.restorer);
  to.setMask(from.mask);
}

void Build(const IntervalTimer& from, wire::IntervalTimer::Builder to) {
  to.setWhich(from.which);
  to.setLeftNs(from.left_ns);
  to.setIntervalNs(from.interval_ns);
}

void Build(const PosixTimer& from, wire::PosixTimer::Builder to) {
  to.setId(from.id);
  to.setClock(from.clock);
  to.setNotify(from.notify);
  to.setSignal(from.signal);
  to.setTarget(from.target);
  to.setValue(from.value);
}

template <typename List, typename Value>
void BuildAll(const std::vector<Value>& from, List to) {
  for (size_t i = 0; i < from.size(); ++i) Build(from[i], to[static_cast<uint32_t>(i)]);
}

std::vector<uint64_t> LimitWords(const std::vector<ResourceLimit>& limits) {
  std::vector<uint64_t> words;
  for (const ResourceLimit& limit : limits) {
    words.push_back(limit.soft);
    words.push_back(limit.hard);
  }
  return words;
}

std::vector<uint64_t> LayoutWords(const MemoryLayout& layout) {
  std::vector<uint64_t> words;
  for (const auto field : kLayout) words.push_back(layout.*field);
  return words;
}

// One message, checked against its size and the budget.
class KernelStateReader {
 public:
  KernelStateReader(const std::string& path, const RawBlock& block, ReadBudget* budget)
      : path_(path), block_(block), budget_(budget) {}

  absl::StatusOr<KernelState> Read() {
    KernelState state;
    RETURN_IF_ERROR(VisitMessage<wire::KernelState>(
        path_, block_, [&](wire::KernelState::Reader from) { return Take(from, &state); }));
    return state;
  }

 private:
  absl::Status Damaged(const char* what) const {
    return BlockError(absl::StatusCode::kDataLoss, path_, block_.offset, what);
  }
  absl::Status Budgeted(uint64_t bytes) {
    if (budget_->Take(bytes)) return absl::OkStatus();
    return BlockError(absl::StatusCode::kResourceExhausted, path_, block_.offset,
                      "holds more than such a file can");
  }

  absl::Status Take(capnp::Data::Reader from, std::string* to) {
    RETURN_IF_ERROR(Budgeted(from.size()));
    *to = AsString(from);
    return absl::OkStatus();
  }

  absl::Status Take(capnp::List<capnp::Data>::Reader from, std::vector<std::string>* to) {
    if (!ListFits(from.size(), 1, block_.word_count)) return Damaged("impossible list of texts");
    RETURN_IF_ERROR(Budgeted(from.size() * sizeof(std::string)));
    for (const auto text : from) RETURN_IF_ERROR(Take(text, &to->emplace_back()));
    return absl::OkStatus();
  }

  absl::Status Take(capnp::List<uint64_t>::Reader from, std::vector<uint64_t>* to) {
    RETURN_IF_ERROR(Budgeted(from.size() * sizeof(uint64_t)));
    *to = AsWords(from);
    return absl::OkStatus();
  }

  // Of structs that have a field each and so take a word.
  template <typename Wire, typename Value>
  absl::Status TakeAll(typename capnp::List<Wire>::Reader from, std::vector<Value>* to) {
    if (!ListFits(from.size(), 1, block_.word_count)) return Damaged("impossible list");
    RETURN_IF_ERROR(Budgeted(from.size() * sizeof(Value)));
    for (const auto element : from) RETURN_IF_ERROR(Take(element, &to->emplace_back()));
    return absl::OkStatus();
  }

  absl::Status Take(wire::ThreadKernelState::Reader from, ThreadKernelState* to) {
    to->thread = from.getThread();
    RETURN_IF_ERROR(Take(from.getName(), &to->name));
    to->blocked = from.getBlocked();
    to->pending = from.getPending();
    RETURN_IF_ERROR(Take(from.getSiginfos(), &to->siginfos));
    to->system_call = from.getSystemCall();
    to->has_signal_stack = from.getHasSignalStack();
    to->signal_stack_base = from.getSignalStackBase();
    to->signal_stack_bytes = from.getSignalStackBytes();
    to->signal_stack_flags = from.getSignalStackFlags();
    to->robust_list = from.getRobustList();
    to->robust_list_bytes = from.getRobustListBytes();
    if (from.getHasClearTid()) to->clear_tid = from.getClearTid();
    to->rseq = from.getRseq();
    to->rseq_bytes = from.getRseqBytes();
    to->rseq_signature = from.getRseqSignature();
    to->rseq_flags = from.getRseqFlags();
    to->policy = from.getPolicy();
    to->priority = from.getPriority();
    to->nice = from.getNice();
    return Take(from.getProcessors(), &to->processors);
  }

  absl::Status Take(wire::OpenDescriptor::Reader from, OpenDescriptor* to) {
    to->fd = from.getFd();
    to->kind = static_cast<DescriptorKind>(from.getKind());
    RETURN_IF_ERROR(Take(from.getPath(), &to->path));
    to->offset = from.getOffset();
    to->flags = from.getFlags();
    to->close_on_exec = from.getCloseOnExec();
    to->mode = from.getMode();
    to->device = from.getDevice();
    to->inode = from.getInode();
    to->special_device = from.getSpecialDevice();
    to->size_bytes = from.getSizeBytes();
    to->same_as = from.getSameAs();
    RETURN_IF_ERROR(Take(from.getDetails(), &to->details));
    if (!from.getHasUnread()) return absl::OkStatus();
    return Take(from.getUnread(), &to->unread.emplace());
  }

  absl::Status Take(wire::SignalHandling::Reader from, SignalHandling* to) {
    *to = {from.getHandler(), from.getFlags(), from.getRestorer(), from.getMask()};
    return absl::OkStatus();
  }

  absl::Status Take(wire::IntervalTimer::Reader from, IntervalTimer* to) {
    *to = {from.getWhich(), from.getLeftNs(), from.getIntervalNs()};
    return absl::OkStatus();
  }

  absl::Status Take(wire::PosixTimer::Reader from, PosixTimer* to) {
    *to = {from.getId(),     from.getClock(),  from.getNotify(),
           from.getSignal(), from.getTarget(), from.getValue()};
    return absl::OkStatus();
  }

  absl::Status TakeLists(wire::KernelState::Reader from, KernelState* to) {
    RETURN_IF_ERROR(TakeAll<wire::ThreadKernelState>(from.getThreads(), &to->threads));
    RETURN_IF_ERROR(TakeAll<wire::OpenDescriptor>(from.getDescriptors(), &to->descriptors));
    RETURN_IF_ERROR(TakeAll<wire::SignalHandling>(from.getSignals(), &to->signals));
    RETURN_IF_ERROR(Take(from.getSiginfos(), &to->siginfos));
    RETURN_IF_ERROR(TakeAll<wire::IntervalTimer>(from.getIntervalTimers(), &to->interval_timers));
    RETURN_IF_ERROR(TakeAll<wire::PosixTimer>(from.getPosixTimers(), &to->posix_timers));
    std::vector<uint64_t> words;
    RETURN_IF_ERROR(Take(from.getLimits(), &words));
    if (words.size() % 2 != 0) return Damaged("a resource limit without its upper bound");
    for (size_t i = 0; i < words.size(); i += 2) to->limits.push_back({words[i], words[i + 1]});
    RETURN_IF_ERROR(Take(from.getLayout(), &words));
    // Of a newer Hindsight there may be more.
    const size_t known = std::min(words.size(), std::size(kLayout));
    for (size_t i = 0; i < known; ++i) to->layout.*kLayout[i] = words[i];
    return absl::OkStatus();
  }

  absl::Status Take(wire::KernelState::Reader from, KernelState* to) {
    RETURN_IF_ERROR(TakeLists(from, to));
    to->pending = from.getPending();
    RETURN_IF_ERROR(Take(from.getExecutable(), &to->executable));
    RETURN_IF_ERROR(Take(from.getWorkingDirectory(), &to->working_directory));
    RETURN_IF_ERROR(Take(from.getRoot(), &to->root));
    to->umask = from.getUmask();
    to->personality = from.getPersonality();
    to->parent = from.getParent();
    to->group = from.getGroup();
    to->session = from.getSession();
    to->no_new_privileges = from.getNoNewPrivileges();
    return absl::OkStatus();
  }

  const std::string& path_;
  const RawBlock& block_;
  ReadBudget* const budget_;
};

uint32_t SizeOf(const auto& list) { return static_cast<uint32_t>(list.size()); }

}  // namespace

void BuildKernelState(const KernelState& from, wire::KernelState::Builder to) {
  BuildAll(from.threads, to.initThreads(SizeOf(from.threads)));
  BuildAll(from.descriptors, to.initDescriptors(SizeOf(from.descriptors)));
  BuildAll(from.signals, to.initSignals(SizeOf(from.signals)));
  to.setPending(from.pending);
  FillTexts(to.initSiginfos(SizeOf(from.siginfos)), from.siginfos);
  BuildAll(from.interval_timers, to.initIntervalTimers(SizeOf(from.interval_timers)));
  BuildAll(from.posix_timers, to.initPosixTimers(SizeOf(from.posix_timers)));
  FillList(to.initLimits(2 * SizeOf(from.limits)), LimitWords(from.limits));
  FillList(to.initLayout(std::size(kLayout)), LayoutWords(from.layout));
  to.setExecutable(AsData(from.executable));
  to.setWorkingDirectory(AsData(from.working_directory));
  to.setRoot(AsData(from.root));
  to.setUmask(from.umask);
  to.setPersonality(from.personality);
  to.setParent(from.parent);
  to.setGroup(from.group);
  to.setSession(from.session);
  to.setNoNewPrivileges(from.no_new_privileges);
}

absl::StatusOr<KernelState> ReadKernelState(const std::string& path, const RawBlock& block,
                                            ReadBudget* budget) {
  return KernelStateReader(path, block, budget).Read();
}

}  // namespace hindsight
