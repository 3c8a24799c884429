#include "emulator/unicorn/unicorn_library.h"

#include <dlfcn.h>
#include <unicorn/unicorn.h>

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace hindsight {
namespace {

[[noreturn]] void EndWith(const char* problem) {
  std::fprintf(stderr, "hindsight: the emulator cannot be loaded: %s\n", problem);
  std::_Exit(EXIT_FAILURE);
}

void* Load() {
  void* const library = dlopen("libunicorn.so.2", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) EndWith(dlerror());
  return library;
}

}  // namespace

void LoadUnicorn() { FindInUnicorn("uc_open"); }

void* FindInUnicorn(const char* name) {
  static void* const library = Load();
  return dlsym(library, name);
}

void* NeedInUnicorn(const char* name) {
  void* const function = FindInUnicorn(name);
  if (function == nullptr) EndWith(dlerror());
  return function;
}

}  // namespace hindsight

// The library's function of the same name and type.
#define UNICORN(name)                                                                           \
  [] {                                                                                          \
    static const auto own = reinterpret_cast<decltype(&name)>(hindsight::NeedInUnicorn(#name)); \
    return own;                                                                                 \
  }()

extern "C" {

uc_err uc_open(uc_arch arch, uc_mode mode, uc_engine** uc) {
  return UNICORN(uc_open)(arch, mode, uc);
}
uc_err uc_close(uc_engine* uc) { return UNICORN(uc_close)(uc); }
const char* uc_strerror(uc_err code) { return UNICORN(uc_strerror)(code); }

uc_err uc_reg_write(uc_engine* uc, int id, const void* value) {
  return UNICORN(uc_reg_write)(uc, id, value);
}
uc_err uc_reg_read(uc_engine* uc, int id, void* value) {
  return UNICORN(uc_reg_read)(uc, id, value);
}

uc_err uc_mem_map(uc_engine* uc, uint64_t address, size_t size, uint32_t rights) {
  return UNICORN(uc_mem_map)(uc, address, size, rights);
}
uc_err uc_mem_map_ptr(uc_engine* uc, uint64_t address, size_t size, uint32_t rights, void* memory) {
  return UNICORN(uc_mem_map_ptr)(uc, address, size, rights, memory);
}
uc_err uc_mem_unmap(uc_engine* uc, uint64_t address, size_t size) {
  return UNICORN(uc_mem_unmap)(uc, address, size);
}
uc_err uc_mem_write(uc_engine* uc, uint64_t address, const void* bytes, size_t size) {
  return UNICORN(uc_mem_write)(uc, address, bytes, size);
}

uc_err uc_emu_start(uc_engine* uc, uint64_t begin, uint64_t until, uint64_t timeout, size_t count) {
  return UNICORN(uc_emu_start)(uc, begin, until, timeout, count);
}
uc_err uc_emu_stop(uc_engine* uc) { return UNICORN(uc_emu_stop)(uc); }

// Of kinds of hooks that take nothing more.
uc_err uc_hook_add(uc_engine* uc, uc_hook* hook, int type, void* callback, void* client,
                   uint64_t begin, uint64_t end, ...) {
  return UNICORN(uc_hook_add)(uc, hook, type, callback, client, begin, end);
}

// Of controls that take two addresses.
uc_err uc_ctl(uc_engine* uc, uc_control_type control, ...) {
  if (control != UC_CTL_WRITE(UC_CTL_TB_REMOVE_CACHE, 2)) return UC_ERR_ARG;
  va_list rest;
  va_start(rest, control);
  const uint64_t begin = va_arg(rest, uint64_t), end = va_arg(rest, uint64_t);
  va_end(rest);
  return UNICORN(uc_ctl)(uc, control, begin, end);
}

uc_err uc_context_alloc(uc_engine* uc, uc_context** context) {
  return UNICORN(uc_context_alloc)(uc, context);
}
uc_err uc_context_free(uc_context* context) { return UNICORN(uc_context_free)(context); }
uc_err uc_context_save(uc_engine* uc, uc_context* context) {
  return UNICORN(uc_context_save)(uc, context);
}
uc_err uc_context_restore(uc_engine* uc, uc_context* context) {
  return UNICORN(uc_context_restore)(uc, context);
}
size_t uc_context_size(uc_engine* uc) { return UNICORN(uc_context_size)(uc); }

}  // extern "C"
