// What a thread whose memory is exclusive (exclusive_memory.h) tells the recorder of it. It uses
// memory directly, so that nobody sees when it uses a page first, or what calls have stored:
//
//   a segment begins   what is mapped is as the map says, but for pages that have been stored to,
//                      which are told as a whole
//   a call             what it has mapped, and stored
//   a segment ends, a  which pages have been used (present in the page tables, or swapped out): a
//   mapping goes       replay needs no others
//
// The kernel says which pages those are (/proc/self/pagemap,
// Documentation/admin-guide/mm/pagemap.rst). If it does not, memory is shared from then on, as far
// as the recorder is concerned.
//
// The process's one thread. Nothing happens if its memory is not exclusive.

#ifndef HINDSIGHT_RECORDER_TRANSLATE_AGENT_DIRECT_MEMORY_H_
#define HINDSIGHT_RECORDER_TRANSLATE_AGENT_DIRECT_MEMORY_H_

#include <stdint.h>

#include "recorder/translate/agent/calls.h"
#include "recorder/translate/agent/thread.h"

namespace hindsight::agent {

// The thread is recorded and uses memory directly.
bool IsDirect(const Thread& thread);

// A segment has begun; what it begins with. How many pages that are.
uint64_t TellFirstMemory(Thread* thread);
// The same if TellUsedMemory was called where the segment before has ended, and the thread has
// executed nothing since.
uint64_t TellNextMemory(Thread* thread);
// The segment is about to end, or memory is going to be shared.
void TellUsedMemory(Thread* thread);
// Memory is shared from here on; after TellUsedMemory.
void TellSharedMemory(Thread* thread);

// So much has been mapped since the segment began that it should end.
bool HasMappedMuch(const Thread& thread);

// `call` maps so much that memory is better shared before.
bool MapsTooMuch(const GuestCall& call);

// `call`, which is about to be made, may take memory away.
void TellUsedBefore(Thread* thread, const GuestCall& call);
// `made`, which changes what is mapped, has succeeded. False: it is not such a call.
bool TellMemoryCall(Thread* thread, const GuestCall& made, uint64_t result);

// `made` has failed. What it is about may have changed in part. False: it is not such a call.
bool TellFailedMemoryCall(Thread* thread, const GuestCall& made);

// Something was stored to [address, address + bytes). False if it cannot be read.
bool TellStored(Thread* thread, uint64_t address, uint64_t bytes);
// Something was stored, nobody knows where: all pages that have been stored to are told. How many.
uint64_t TellAllStored(Thread* thread);

}  // namespace hindsight::agent

#endif  // HINDSIGHT_RECORDER_TRANSLATE_AGENT_DIRECT_MEMORY_H_
