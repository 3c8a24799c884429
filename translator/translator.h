// Rewrites a guest's code so that it runs natively in the guest's own process, counts its
// instructions, and accesses memory as the engine wants it.
//
// A function of its arguments: no process, no system call, no state but memory that a thread uses
// again and what it has decoded lately, neither of which changes a result. Any thread.

#ifndef HINDSIGHT_TRANSLATOR_TRANSLATOR_H_
#define HINDSIGHT_TRANSLATOR_TRANSLATOR_H_

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "isa/memory_model.h"
#include "translator/stubs.h"
#include "translator/thread_block.h"

namespace hindsight {

// What memory accesses become.
enum class Flavour : uint8_t {
  kPlain,   // unchanged
  kRecord,  // loads are compared with the view, stores go to the view and to memory, unless memory
            // is exclusive
};

// The bytes of code at a guest address, as far as they are known: empty if not at all. Used to find
// out whether flags are read after a branch.
using CodeAt = std::function<absl::Span<const uint8_t>(uint64_t guest_pc)>;

// Whether the instruction that these bytes are is to be executed by the agent although translated
// code could do it.
using LeftToAgent = std::function<bool(absl::Span<const uint8_t> instruction)>;

struct TranslateRequest {
  uint64_t guest_pc = 0;
  absl::Span<const uint8_t> bytes;  // of the guest's code, from guest_pc
  uint64_t host_address = 0;        // where the code will lie; a multiple of kHostAlignment
  Flavour flavour = Flavour::kPlain;
  StubAddresses stubs;  // within 2 GiB of host_address
  uint32_t max_instructions = 64;
  CodeAt code_at;  // may be unset: then flags are taken to be read
  // Flavour record: the agent understands kHsExitOperation. If it does not, string instructions are
  // refused, and locked ones executed as if no other thread were there.
  bool operations = false;
  // With operations: which instructions are events in the order of threads (struct HsLockedEntry).
  // mfence, sfence and lfence are operations, too, if they are.
  MemoryModel order = MemoryModel::kKernel;
  // The processor has AVX-512 with BW, DQ and VL: loads by a mask are translated. Without it they
  // are refused.
  bool masks = false;
  LeftToAgent left_to_agent;  // may be unset. Not asked about what is plain
  // The code may be changed while it is executed: a block ends after an instruction that stores,
  // but for pushes and, without `by_any_store`, what it stores beside rsp.
  bool may_change = false;
  bool by_any_store = false;
  // Flavour record: who asks has made the view of the operands agree with memory, and what is read
  // comes from there without a comparison. For one instruction whose checks fail again and again,
  // because others change the operand all the time.
  bool trust_view = false;
  // Flavour record: nobody else stores to memory. Everything is read and written there, by the
  // guest's own instructions; there is no view. The stubs must be those for that.
  bool exclusive = false;
  // With exclusive: loads whose address is not relative to rsp or rbp are compared with the view
  // nevertheless, since the kernel changes what they read (vdso).
  bool watches_loads = false;
  // For tests: of so many checks, one fails whatever is there; 0: none.
  uint32_t failing_checks = 0;
};

inline constexpr uint64_t kHostAlignment = 8;

// A place in the code where a guest instruction begins, or where one can fault.
//
// A fault (or a signal) at host pc H belongs to the last entry with host_offset <= H. There the
// count is count_end - r10 + adjust, the guest's pc is guest_pc + guest_offset, and the instruction
// there has had no effect yet, on registers or memory. (Flavour record: the view may hold what the
// instruction was about to store.)
struct SideEntry {
  uint32_t host_offset = 0;
  uint32_t guest_offset = 0;
  int32_t adjust = 0;
  // [i]: number of the register whose guest value is in save[i], HS_CARRY_SAVED, HS_FLAGS_ASIDE,
  // HS_POPPED or HS_NOT_SAVED. The others are in place, r10 and r11 in the block.
  std::array<uint8_t, 4> saved = {HS_NOT_SAVED, HS_NOT_SAVED, HS_NOT_SAVED, HS_NOT_SAVED};
  // The status flags that are the guest's. It overwrites the others before it reads them.
  uint16_t flags_exact = 0;
};

// A direct branch: the 4 bytes at rel32_offset, which are aligned in the host's address space, lead
// to an exit of kind kHsExitLink until they are made to lead to the translation of guest_target.
struct Link {
  uint32_t rel32_offset = 0;
  uint64_t guest_target = 0;
};

struct CodeRange {
  uint64_t pc = 0;
  uint32_t bytes = 0;
};

struct TranslatedBlock {
  std::vector<uint8_t> code;
  uint32_t guest_bytes = 0;     // that were translated, the last instruction included
  uint32_t instructions = 0;    // counted by the block; not one that exits uncounted
  std::vector<SideEntry> side;  // ascending
  std::vector<Link> links;
  // Code outside of the block that was looked at: the block is wrong once that changes.
  std::vector<CodeRange> relied_on;
  // Where in the code the exits begin, which are seldom executed, at a multiple of kHostAlignment.
  // They may be placed apart from what is before them; `to_exits` has the offsets of all rel32
  // displacements that lead from there to them, but for those in `links`.
  uint32_t exits_offset = 0;
  std::vector<uint32_t> to_exits;
  // What depends on where the code lies: offsets of rel32 displacements that lead out of the block
  // (not those in `links`), and of 8-byte addresses of places in it. All else would be the same at
  // other multiples of kHostAlignment from which everything is within reach.
  std::vector<uint32_t> outward, own;
  // Name of the instruction that ends the block by kHsExitInstruction; empty if none does.
  std::string refusal;
};

// Translates up to the first branch, system call or instruction that is not executed in translated
// code, to max_instructions, or to the end of `bytes`; an instruction that does not fit into
// `bytes` ends the block before it. Errors: InvalidArgument: `bytes` holds no whole instruction
// though it is shorter than 15 bytes (more are needed), or the addresses are out of reach of each
// other.
absl::StatusOr<TranslatedBlock> Translate(const TranslateRequest& request);

// What the table of indirect branches has for request.guest_pc if flags are read from there on:
// side.front().flags_exact of its translation, to which it leads, is not 0. That need not exist:
// only the pc and the places matter. Errors: as above.
absl::StatusOr<TranslatedBlock> TranslateIndirectTo(const TranslateRequest& request);

}  // namespace hindsight

#endif  // HINDSIGHT_TRANSLATOR_TRANSLATOR_H_
