// Points where C++ exceptions of chosen types are thrown. Takes the place of __cxa_throw, hence
// an object of its own that is linked, or preloaded, on purpose.
//
// The runtime's own __cxa_throw is found behind this one: a program whose C++ runtime is linked
// statically cannot use it.

#include <cxxabi.h>
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <typeinfo>

#include "libhindsight/control.h"
#include "libhindsight/hindsight.h"

namespace {

using Control = struct hs_control;  // the variable has the same name
using Thrower = void (*)(void*, std::type_info*, void (*)(void*));

// The name in C++'s spelling, or as the compiler has it.
class TypeName {
 public:
  explicit TypeName(const std::type_info& type)
      : demangled_(abi::__cxa_demangle(type.name(), nullptr, nullptr, nullptr)),
        name_(demangled_ != nullptr ? demangled_ : type.name()) {}
  ~TypeName() { std::free(demangled_); }
  TypeName(const TypeName&) = delete;
  TypeName& operator=(const TypeName&) = delete;

  const char* text() const { return name_; }

 private:
  char* demangled_;
  const char* name_;
};

bool IsNamed(const Control& control, const std::type_info& type) {
  const TypeName name(type);
  for (uint32_t i = 0; i < control.type_count && i < HS_TYPES; ++i) {
    if (std::strcmp(control.types[i], name.text()) == 0) return true;
    if (std::strcmp(control.types[i], "*") == 0) return true;
  }
  return false;
}

// Whether the type or one of its base classes is among those that are asked for.
bool IsWanted(const Control& control, const std::type_info& type) {
  if (IsNamed(control, type)) return true;
  if (const auto* one = dynamic_cast<const abi::__si_class_type_info*>(&type)) {
    return IsWanted(control, *one->__base_type);
  }
  if (const auto* many = dynamic_cast<const abi::__vmi_class_type_info*>(&type)) {
    for (unsigned i = 0; i < many->__base_count; ++i) {
      if (IsWanted(control, *many->__base_info[i].__base_type)) return true;
    }
  }
  return false;
}

// what(), where the object is a std::exception; otherwise null.
const char* WhatOf(void* object, const std::type_info& type) {
  void* adjusted = object;
  if (!typeid(std::exception).__do_catch(&type, &adjusted, 1)) return nullptr;
  return static_cast<const std::exception*>(adjusted)->what();
}

void Report(void* object, const std::type_info& type) {
  const Control* control = __atomic_load_n(&hs_control, __ATOMIC_ACQUIRE);
  if (control == nullptr || (control->triggers >> HS_TRIGGER_EXCEPTION & 1) == 0) return;
  if (!__atomic_load_n(&control->active, __ATOMIC_ACQUIRE) || !IsWanted(*control, type)) return;
  const TypeName name(type);
  const char* what = WhatOf(object, type);
  const hs_attribute attributes[] = {{what != nullptr ? "what" : nullptr, what},
                                     {nullptr, nullptr}};
  hs_report_exception(name.text(), attributes);
}

}  // namespace

extern "C" [[noreturn]] void __cxa_throw(void* object, std::type_info* type,
                                         void (*destroy)(void*)) {
  static const auto next = reinterpret_cast<Thrower>(dlsym(RTLD_NEXT, "__cxa_throw"));
  if (hs_listening()) Report(object, *type);
  if (next != nullptr) next(object, type, destroy);
  std::abort();
}
