// What a thread's agent writes into its ring, for tests.
//
// Borrows the ring. One host thread.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_STREAM_FAKE_AGENT_H_
#define HINDSIGHT_RECORDER_TRANSLATE_STREAM_FAKE_AGENT_H_

#include <sys/syscall.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "recorder/translate/stream/record_ring.h"
#include "tracefmt/records.h"

namespace hindsight {

class FakeAgent {
 public:
  static constexpr uint64_t kCode = 0x1000;  // where it begins

  explicit FakeAgent(HsRing* ring) : ring_(ring) {}

  void State(uint16_t kind, uint64_t time, uint16_t flags = 0) {
    auto* const state = Reserve<HsState>(kind, time, 0);
    state->entry.flags = flags;
    std::memset(state->words, 0, sizeof(state->words));
    state->words[0] = rax;
    state->words[HS_WORD_RIP] = rip;
    state->words[HS_WORD_RFLAGS] = 0x202;
    state->words[HS_WORD_MXCSR] = 0x1f80;
    state->words[HS_WORD_FCW] = 0x37f;
    HsRingCommit(ring_);
  }
  void Page(uint64_t address, const std::vector<uint8_t>& bytes) {
    auto* const page = Reserve<HsPage>(HS_ENTRY_PAGE, 0, 0);
    page->host = 0;
    page->address = address;
    std::memset(page->bytes, 0, kPageBytes);
    std::copy(bytes.begin(), bytes.end(), page->bytes);
    HsRingCommit(ring_);
  }
  // The first line of a page begins with `word` from now on.
  void Word(uint64_t address, uint64_t word, uint64_t time = 0) {
    auto* const lines = Reserve<HsLines>(HS_ENTRY_LINES, time, kLineBytes);
    lines->host = 0;
    lines->address = address;
    lines->mask = 1;
    lines->known = 0;
    std::memset(lines->shown, 0, sizeof(lines->shown));
    std::memset(lines->bytes, 0, kLineBytes);
    std::memcpy(lines->bytes, &word, sizeof(word));
    HsRingCommit(ring_);
  }
  void Standing(uint64_t time, uint64_t began) {
    auto* const standing = Reserve<HsStanding>(HS_ENTRY_STANDING, time, 0);
    std::memset(standing->words, 0, sizeof(standing->words));
    standing->words[HS_WORD_RIP] = rip;
    standing->began = began;
    standing->trigger = standing->detail = 0;
    HsRingCommit(ring_);
  }
  void Bare(uint16_t kind, uint64_t time) {
    Reserve<HsEntry>(kind, time, 0);
    HsRingCommit(ring_);
  }
  void Exec(uint64_t time) {
    Reserve<HsCall>(HS_ENTRY_EXEC, time, 0)->number = SYS_execve;
    HsRingCommit(ring_);
  }
  void Call(uint64_t time, uint64_t number, uint64_t result, uint16_t made_ring = 0) {
    auto* const call = Reserve<HsCall>(HS_ENTRY_CALL, time, 2 * sizeof(HsChange));
    call->entry.flags = made_ring;
    call->number = number;
    call->clone_flags = 0;
    std::memset(call->arguments, 0, sizeof(call->arguments));
    rip += 2;
    rax = result;
    call->size = 2;
    call->changes[0] = {0, result};
    call->changes[1] = {HS_WORD_RIP, rip};
    HsRingCommit(ring_);
    ++count;
  }

  uint64_t count = 0, rip = kCode, rax = 0;

 private:
  template <typename T>
  T* Reserve(uint16_t kind, uint64_t time, size_t extra) {
    HsEntry* const entry = HsRingReserve(ring_, static_cast<uint32_t>(sizeof(T) + extra));
    EXPECT_NE(entry, nullptr);
    entry->kind = kind;
    entry->count = count;
    entry->time = time;
    return reinterpret_cast<T*>(entry);
  }

  HsRing* const ring_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_RECORDER_TRANSLATE_STREAM_FAKE_AGENT_H_
