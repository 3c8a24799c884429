// One Unicorn instance: owns the uc_engine, moves registers in and out, maps regions of a View.
//
// Not copyable, not movable. One thread at a time.

#ifndef HINDSIGHT_EMULATOR_UNICORN_UNICORN_ENGINE_H_
#define HINDSIGHT_EMULATOR_UNICORN_UNICORN_ENGINE_H_

#include <unicorn/unicorn.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "emulator/unicorn/context_layout.h"
#include "emulator/unicorn/float_helpers.h"
#include "emulator/view/view.h"
#include "isa/registers.h"

namespace hindsight {

// What a running engine asks of its Cpu. Called from inside uc_emu_start.
class EngineClient {
 public:
  virtual ~EngineClient() = default;
  // A watched location may be touched: called before the access, only if `watch` was set.
  virtual void OnMemory(bool write, uint64_t address, uint32_t size, uint64_t value) = 0;
  // The first access to a chunk. False: there is nothing at `address`; the engine stops.
  virtual bool OnNewChunk(bool write, uint64_t address) = 0;
};

class UnicornEngine {
 public:
  // Called before each basic block of `size` bytes: calls uc_emu_stop to stop there. Not a virtual
  // function, since it is called so often. `client` is an EngineClient*.
  using BlockHook = void (*)(uc_engine* uc, uint64_t address, uint32_t size, void* client);

  // `watch`: call OnMemory for every access (slower). `client` and `view` are borrowed.
  static absl::StatusOr<std::unique_ptr<UnicornEngine>> Create(View* view, EngineClient* client,
                                                               BlockHook block_hook, bool watch);
  ~UnicornEngine();
  UnicornEngine(const UnicornEngine&) = delete;
  UnicornEngine& operator=(const UnicornEngine&) = delete;

  // All of `registers` but rip and the selectors, which Unicorn would check against descriptors
  // that do not exist here.
  void Store(const RegisterFile& registers);
  void Load(RegisterFile* registers);
  uint64_t ReadGpr(int number);
  void WriteGpr(int number, uint64_t value);
  // Bit i: the x87's st(i) is empty.
  uint8_t EmptyX87();
  uint64_t ReadFlags();
  void WriteFlags(uint64_t flags);

  enum class Exit : uint8_t {
    kStopped,    // a hook stopped it
    kTrap,       // single-step trap
    kNewChunk,   // code in a chunk that was not mapped; none of it was executed. Start again
    kException,  // any other exception, or an access outside all chunks; state is not exact
  };
  // Runs from `pc` until it is stopped, at pc().
  Exit Start(uint64_t pc);
  uint64_t pc();
  // One copy of all registers, to undo a step.
  void SaveContext();
  void RestoreContext();

  // Drops translations of [address, address + size).
  void DropTranslations(uint64_t address, uint64_t size);
  // Forgets the chunk at `base`, if it is a region of its own. Requires: nothing translated from it
  // is left, and the view still has it.
  void Unmap(uint64_t base);

 private:
  // SaveContext's.
  struct Saved {
    uc_context* context = nullptr;
    GuestFloat guest_float;
    bool remembers_exception = false;
  };
  // The x87's state when it was last read, and the bytes of the context it was read from.
  struct X87Copy {
    RegisterFile registers;
    std::vector<uint8_t> bytes;
  };
  // What hooks saw since Start.
  struct Events {
    bool trapped = false;
    bool new_chunk = false;
    bool exception = false;
  };

  UnicornEngine(View* view, EngineClient* client);
  absl::Status AddHooks(BlockHook block_hook, bool watch);
  static void InterruptHook(uc_engine* uc, uint32_t number, void* self);
  static bool UnmappedHook(uc_engine* uc, uc_mem_type type, uint64_t address, int size,
                           int64_t value, void* self);
  static void MemoryHook(uc_engine* uc, uc_mem_type type, uint64_t address, int size, int64_t value,
                         void* self);
  bool Map(uint64_t address);
  void StoreAll(const RegisterFile& registers);
  void StoreChanges(const RegisterFile& registers);
  void LoadX87(RegisterFile* registers);
  void ReadX87(RegisterFile* registers);
  void StoreX87(const RegisterFile& registers);
  const uint8_t* At(const uc_context* context, size_t offset) const {
    return reinterpret_cast<const uint8_t*>(context) + offset;
  }

  View* view_;
  EngineClient* client_;
  uc_engine* uc_ = nullptr;
  uc_context* new_ = nullptr;  // of the engine as it was made
  uc_context* now_ = nullptr;  // to look for registers in
  ContextLayout layout_;
  // What the last Load found, if nothing has changed since: the engine holds it.
  RegisterFile held_;
  bool held_valid_ = false;
  X87Copy x87_;
  GuestFloat float_;                      // newer than Unicorn's own MXCSR and status word
  absl::flat_hash_set<uint64_t> mapped_;  // bases of the regions Unicorn knows
  View::Region last_mapped_;              // the last one asked for; empty: none
  Events events_;
  bool remembers_exception_ = false;  // see Start
  Saved saved_;
};

}  // namespace hindsight

#endif  // HINDSIGHT_EMULATOR_UNICORN_UNICORN_ENGINE_H_
