#include "recorder/translate/view/entry_writer.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>

#include "recorder/translate/view/raw_call.h"

namespace hindsight {
namespace {

template <typename T>
T Load(const uint8_t* bytes) {
  T value;
  __builtin_memcpy(&value, bytes, sizeof(value));
  return value;
}

uint64_t Now() {
  uint32_t low, high;
  // After what came before in program order.
  asm volatile("lfence\n\trdtsc" : "=a"(low), "=d"(high)::"memory");
  return uint64_t{high} << 32 | low;
}

uint64_t* Append(uint64_t* words, const uint64_t* values, int count) {
  for (int i = 0; i < count; ++i) *words++ = values[i];
  return words;
}

void Append(HsChange* changes, uint64_t* size, uint64_t word, uint64_t value) {
  changes[(*size)++] = {word, value};
}

uint64_t AllChanges(const GuestState& state, HsChange* changes) {
  uint64_t words[HS_ALL_STATE_WORDS];
  const uint64_t size = ToAllStateWords(state, words);
  for (uint64_t i = 0; i < size; ++i) changes[i] = {i, words[i]};
  return size;
}

uint64_t CountWords(const GuestState& state) {
  return state.has_extended ? HS_ALL_STATE_WORDS : HS_STATE_WORDS;
}

uint64_t AllChangesBytes(const GuestState& state) { return CountWords(state) * sizeof(HsChange); }

// What an entry that ends with a state has beside its fixed fields.
uint64_t ExtendedBytes(const GuestState& state) {
  return (CountWords(state) - HS_STATE_WORDS) * sizeof(uint64_t);
}

// What the processor may compute otherwise than a replay.
constexpr uint64_t kCorrected[] = {HS_WORD_RFLAGS, HS_WORD_MXCSR, HS_WORD_FSW,
                                   HS_WORD_FOP,    HS_WORD_FIP,   HS_WORD_FDP};

// Of a step, whatever it was before.
bool IsAlwaysTold(uint64_t word) {
  if (word == HS_WORD_RIP) return true;
  for (const uint64_t corrected : kCorrected) {
    if (word == corrected) return true;
  }
  return false;
}

// What a read of 128 KB stores. Less than where a ring starts over: its memory stays in the caches.
constexpr uint64_t kHeldBytes = 160 * 1024;

constexpr uint64_t kRaxWord = 0, kRcxWord = 1, kR11Word = 11;

}  // namespace

void ToStateWords(const GuestState& state, uint64_t* words) {
  words = Append(words, state.gpr, 16);
  words = Append(words, &state.rip, 4);
  words = Append(words, state.selectors, 6);
  const uint8_t* const x = state.fxsave;
  const uint64_t control[] = {
      Load<uint32_t>(x + 24), Load<uint16_t>(x),     Load<uint16_t>(x + 2), x[4],
      Load<uint16_t>(x + 6),  Load<uint64_t>(x + 8), Load<uint64_t>(x + 16)};
  words = Append(words, control, 7);
  for (int i = 0; i < 8; ++i) {
    *words++ = Load<uint64_t>(x + 32 + 16 * i);
    *words++ = Load<uint16_t>(x + 40 + 16 * i);
  }
  for (int i = 0; i < 32; ++i) *words++ = Load<uint64_t>(x + 160 + 8 * i);
}

uint64_t ToAllStateWords(const GuestState& state, uint64_t* words) {
  ToStateWords(state, words);
  if (state.has_extended) Append(words + HS_STATE_WORDS, state.extended, HS_EXTENDED_WORDS);
  return CountWords(state);
}

void EntryWriter::Init(HsRing* ring, IsAbandoned is_abandoned, uint32_t* attention) {
  ring_ = ring;
  ring_->holds_back = 0;
  ring_->held_back = 0;
  is_abandoned_ = is_abandoned;
  attention_ = attention;
}

void EntryWriter::AskForAttention() const {
  if (attention_ == nullptr) return;
  __atomic_add_fetch(attention_, 1, __ATOMIC_SEQ_CST);
  RawCall(SYS_futex, reinterpret_cast<uint64_t>(attention_), FUTEX_WAKE, 1);
}

HsEntry* EntryWriter::Reserve(uint64_t size) {
  const auto rounded = static_cast<uint32_t>((size + 7) & ~uint64_t{7});
  HsEntry* entry = HsRingReserve(ring_, rounded);
  while (entry == nullptr) {
    AwaitTail(0, rounded);
    entry = HsRingReserve(ring_, rounded);
  }
  return entry;
}

HsEntry* EntryWriter::Begin(HsEntryKind kind, uint64_t count, uint64_t size) {
  HsEntry* const entry = Reserve(size);
  entry->kind = kind;
  entry->count = count;
  entry->time = 0;
  return entry;
}

void EntryWriter::Commit() { HsRingCommit(ring_); }

uint64_t EntryWriter::TakeTime() {
  __atomic_store_n(&ring_->writing, HS_WRITING, __ATOMIC_SEQ_CST);
  return Now();
}

uint64_t EntryWriter::TakeAnnouncedTime() { return Now(); }

HsEntry* EntryWriter::BeginTimed(HsEntryKind kind, uint64_t count, uint64_t size) {
  const uint64_t time = TakeTime();
  HsEntry* const entry = Begin(kind, count, size);
  entry->time = time;
  return entry;
}

void EntryWriter::CommitTimed() {
  HsRingCommit(ring_);
  if (ring_->holds_back == 0) __atomic_store_n(&ring_->writing, 0, __ATOMIC_RELEASE);
}

// Time stamps are held back, too.
void EntryWriter::HoldBack() {
  const uint64_t most = ring_->capacity / 8;
  Reserve(kHeldBytes < most ? kHeldBytes : most);
  ring_->holds_back = 1;
  __atomic_store_n(&ring_->writing, HS_WRITING, __ATOMIC_SEQ_CST);
}

void EntryWriter::Publish() {
  if (ring_->holds_back == 0) return;
  ring_->holds_back = 0;
  HsRingPublish(ring_);
  __atomic_store_n(&ring_->writing, 0, __ATOMIC_RELEASE);
}

EntryWriter::Seen EntryWriter::TakeSeen() {
  const uint32_t announced = __atomic_load_n(&ring_->writing, __ATOMIC_RELAXED);
  if (announced == 0) return {TakeTime(), announced};
  return {Now(), announced};
}

void EntryWriter::CommitSeen(HsEntry* entry, const Seen& seen) {
  entry->time = seen.time;
  HsRingCommit(ring_);
  CancelSeen(seen);
}

void EntryWriter::CancelSeen(const Seen& seen) {
  __atomic_store_n(&ring_->writing, seen.announced, __ATOMIC_RELEASE);
}

// Until the tail is at `position`, or there is room for `size` bytes if that is not 0.
void EntryWriter::AwaitTail(uint64_t position, uint32_t size) {
  HsRingPublish(ring_);
  // Until it is asked whether there is a recorder. Where a thousand wait, that is work, too.
  timespec patience = {0, 100'000'000};
  constexpr long kMostPatience = 800'000'000;
  while (true) {
    __atomic_store_n(&ring_->tail_waiters, 1, __ATOMIC_SEQ_CST);
    const uint64_t tail = __atomic_load_n(&ring_->tail, __ATOMIC_SEQ_CST);
    if (size != 0 ? HsRingReserve(ring_, size) != nullptr : tail >= position) return;
    AskForAttention();
    const int64_t woken = RawCall(SYS_futex, reinterpret_cast<uint64_t>(&ring_->tail_waiters),
                                  FUTEX_WAIT, 1, reinterpret_cast<uint64_t>(&patience));
    if (woken != -ETIMEDOUT) continue;
    if (patience.tv_nsec < kMostPatience) patience.tv_nsec *= 2;
    if (is_abandoned_ != nullptr && is_abandoned_()) {
      __atomic_store_n(&ring_->tail, ring_->head, __ATOMIC_SEQ_CST);
    }
  }
}

void EntryWriter::AwaitRecorder() {
  const bool holds_back = ring_->holds_back != 0;
  Publish();
  __atomic_store_n(&ring_->awaited, 1, __ATOMIC_RELAXED);
  AwaitTail(ring_->head, 0);
  __atomic_store_n(&ring_->awaited, 0, __ATOMIC_RELAXED);
  if (holds_back) HoldBack();
}

void EntryWriter::State(HsEntryKind kind, uint64_t count, const GuestState& state) {
  auto* const entry =
      reinterpret_cast<HsState*>(BeginTimed(kind, count, sizeof(HsState) + ExtendedBytes(state)));
  ToAllStateWords(state, entry->words);
  CommitTimed();
}

void EntryWriter::Standing(uint64_t count, const GuestState& state, const Stand& stand) {
  auto* const entry = reinterpret_cast<HsStanding*>(
      BeginTimed(HS_ENTRY_STANDING, count, sizeof(HsStanding) + ExtendedBytes(state)));
  ToAllStateWords(state, entry->words);
  entry->began = stand.began;
  entry->trigger = stand.trigger;
  entry->detail = stand.detail;
  CommitTimed();
}

void EntryWriter::Call(uint64_t count, const GuestCall& call, const HsChange* changes,
                       uint64_t size) {
  constexpr uint64_t kOwn = 4;
  auto* const entry = reinterpret_cast<HsCall*>(
      BeginTimed(HS_ENTRY_CALL, count, sizeof(HsCall) + (kOwn + size) * sizeof(HsChange)));
  entry->entry.flags = call.ring;
  if (call.time != 0) entry->entry.time = call.time;
  entry->number = call.number;
  entry->clone_flags = call.clone_flags;
  entry->map_read = call.map_read;
  for (int i = 0; i < 6; ++i) entry->arguments[i] = call.arguments[i];
  entry->size = 0;
  Append(entry->changes, &entry->size, kRaxWord, call.result);
  Append(entry->changes, &entry->size, kRcxWord, call.next_rip);
  Append(entry->changes, &entry->size, kR11Word, call.rflags);
  Append(entry->changes, &entry->size, HS_WORD_RIP, call.next_rip);
  for (uint64_t i = 0; i < size; ++i) entry->changes[entry->size++] = changes[i];
  CommitTimed();
}

void EntryWriter::CallTo(uint64_t count, const GuestCall& call, const GuestState& after) {
  auto* const entry = reinterpret_cast<HsCall*>(
      BeginTimed(HS_ENTRY_CALL, count, sizeof(HsCall) + AllChangesBytes(after)));
  entry->number = call.number;
  entry->clone_flags = call.clone_flags;
  entry->map_read = 0;
  for (int i = 0; i < 6; ++i) entry->arguments[i] = call.arguments[i];
  entry->size = AllChanges(after, entry->changes);
  CommitTimed();
}

void EntryWriter::Exec(uint64_t count, const GuestCall& call) {
  auto* const entry = reinterpret_cast<HsCall*>(BeginTimed(HS_ENTRY_EXEC, count, sizeof(HsCall)));
  entry->number = call.number;
  for (int i = 0; i < 6; ++i) entry->arguments[i] = call.arguments[i];
  entry->clone_flags = 0;
  entry->map_read = 0;
  entry->size = 0;
  CommitTimed();
}

void EntryWriter::Signal(uint64_t count, int32_t signal, const uint8_t* siginfo,
                         const GuestState& after) {
  auto* const entry = reinterpret_cast<HsSignal*>(
      BeginTimed(HS_ENTRY_SIGNAL, count, sizeof(HsSignal) + AllChangesBytes(after)));
  entry->signal = static_cast<uint64_t>(signal);
  __builtin_memcpy(entry->siginfo, siginfo, sizeof(entry->siginfo));
  entry->size = AllChanges(after, entry->changes);
  CommitTimed();
}

void EntryWriter::Locked(uint64_t count, uint64_t time) {
  Begin(HS_ENTRY_LOCKED, count, sizeof(HsEntry))->time = time;
  CommitTimed();
}

EntryWriter::LockedRoom EntryWriter::RoomForLocked() const {
  const uint64_t head = ring_->head, start = head - head % ring_->capacity;
  const uint64_t most = __atomic_load_n(&ring_->most_behind, __ATOMIC_RELAXED);
  const uint64_t room = most != 0 && most < ring_->capacity ? most : ring_->capacity;
  const uint64_t free = __atomic_load_n(&ring_->tail, __ATOMIC_ACQUIRE) + room;
  const uint64_t end = free < start + ring_->capacity ? free : start + ring_->capacity;
  // What is written at a head below that ends at `end`, at most.
  const uint64_t limit = end > head + sizeof(HsEntry) ? end - sizeof(HsEntry) + 1 : 0;
  return {limit, reinterpret_cast<uint64_t>(HsRingAt(ring_, start)) - start};
}

void EntryWriter::Reached(uint64_t count, bool timed) {
  if (!timed) {
    Begin(HS_ENTRY_REACHED, count, sizeof(HsEntry));
    return Commit();
  }
  BeginTimed(HS_ENTRY_REACHED, count, sizeof(HsEntry));
  CommitTimed();
}

void EntryWriter::Hash(uint64_t count, uint64_t address, uint64_t bytes, uint64_t hash) {
  auto* const entry = reinterpret_cast<HsHash*>(Begin(HS_ENTRY_HASH, count, sizeof(HsHash)));
  entry->address = address;
  entry->bytes = bytes;
  entry->hash = hash;
  Commit();
}

void EntryWriter::Status(uint64_t count, uint64_t status) {
  auto* const entry = reinterpret_cast<HsStatus*>(Begin(HS_ENTRY_STATUS, count, sizeof(HsStatus)));
  entry->status = status;
  Commit();
}

void EntryWriter::End(uint64_t count, uint16_t reason, const GuestState& state) {
  auto* const entry = reinterpret_cast<HsState*>(
      BeginTimed(HS_ENTRY_END, count, sizeof(HsState) + ExtendedBytes(state)));
  entry->entry.flags = reason;
  ToAllStateWords(state, entry->words);
  CommitTimed();
  Publish();
}

void EntryWriter::Patch(HsEntryKind kind, uint64_t count, const HsChange* changes, uint64_t size) {
  auto* const entry =
      reinterpret_cast<HsPatch*>(Begin(kind, count, sizeof(HsPatch) + size * sizeof(HsChange)));
  entry->size = size;
  for (uint64_t i = 0; i < size; ++i) entry->changes[i] = changes[i];
  Commit();
}

void EntryWriter::Step(uint64_t count, const GuestState& after, const uint64_t* before) {
  HsChange changes[HS_ALL_STATE_WORDS];
  uint64_t size = AllChanges(after, changes);
  if (before != nullptr) {
    const uint64_t all = size;
    size = 0;
    for (uint64_t i = 0; i < all; ++i) {
      const HsChange change = changes[i];
      if (IsAlwaysTold(change.word) || change.value != before[i]) changes[size++] = change;
    }
  }
  Patch(HS_ENTRY_INSTRUCTION, count, changes, size);
}

void EntryWriter::Correction(uint64_t count, const GuestState& state) {
  uint64_t words[HS_STATE_WORDS];
  ToStateWords(state, words);
  HsChange changes[6];
  uint64_t size = 0;
  for (const uint64_t word : kCorrected) Append(changes, &size, word, words[word]);
  Patch(HS_ENTRY_CORRECTION, count, changes, size);
}

}  // namespace hindsight
