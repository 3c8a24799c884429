// The C++ side of hindsight.h: the same points, attributes as initialiser lists, and a scope that
// is a point when it begins and when it ends. C++14; nothing but inline functions.
//
//   hs::Breakpoint({.level = 2, .class_number = kSolver, .id = 7}, {{"phase", "solve"}});
//   hs::Breakpoint(where, [&] { return hs::Attributes{{"norm", std::to_string(norm)}}; });
//   hs::ScopedPoint scope({.level = 1, .id = 8});
//
// Snapshots at thrown exceptions need no source: link with (or preload) libhindsight_exceptions.

#ifndef HINDSIGHT_LIBHINDSIGHT_HINDSIGHT_HPP_
#define HINDSIGHT_LIBHINDSIGHT_HINDSIGHT_HPP_

#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "hindsight.h"

namespace hs {

using Attribute = hs_attribute;

// Attributes whose texts are made on the way.
using Attributes = std::vector<std::pair<std::string, std::string>>;

struct Where {
  std::int32_t level;
  std::uint32_t class_number;
  std::uint32_t id;
  bool once;
};

inline bool Listening() { return hs_listening(); }

inline void Snapshot(const char* label = nullptr) { hs_snapshot(label); }
inline void Snapshot(const std::string& label) { hs_snapshot(label.c_str()); }

inline void Breakpoint(const Where& where) {
  hs_breakpoint(where.level, where.class_number, where.id, where.once, nullptr);
}

namespace internal {

inline void Report(const Where& where, const Attribute* first, std::size_t count) {
  std::vector<Attribute> ended(first, first + count);
  ended.push_back({nullptr, nullptr});
  hs_report_breakpoint(where.level, where.class_number, where.id, where.once, ended.data());
}

}  // namespace internal

// The texts are borrowed for the call.
inline void Breakpoint(const Where& where, std::initializer_list<Attribute> attributes) {
  if (!hs_listening() || !hs_passes(where.level, where.class_number, where.id)) return;
  internal::Report(where, attributes.begin(), attributes.size());
}

// `make` returns Attributes. It is called only if level, class and id let the point pass.
template <typename Make, typename = typename std::enable_if<std::is_convertible<
                             decltype(std::declval<Make&>()()), Attributes>::value>::type>
inline void Breakpoint(const Where& where, Make&& make) {
  if (!hs_listening() || !hs_passes(where.level, where.class_number, where.id)) return;
  const Attributes made = make();
  std::vector<Attribute> attributes;
  for (const auto& attribute : made) {
    attributes.push_back({attribute.first.c_str(), attribute.second.c_str()});
  }
  internal::Report(where, attributes.data(), attributes.size());
}

// A breakpoint with the attribute at=begin, and one with at=end when the scope is left, whichever
// way; by an exception it is at=unwind.
class ScopedPoint {
 public:
  explicit ScopedPoint(const Where& where);
  ~ScopedPoint();

  ScopedPoint(const ScopedPoint&) = delete;
  ScopedPoint& operator=(const ScopedPoint&) = delete;

 private:
  static int Exceptions();

  const Where where_;
  const int exceptions_ = Exceptions();
};

// Before C++17 only whether there is any exception is known, not how many.
inline int ScopedPoint::Exceptions() {
#if __cplusplus >= 201703L
  return std::uncaught_exceptions();
#else
  return std::uncaught_exception() ? 1 : 0;
#endif
}

inline ScopedPoint::ScopedPoint(const Where& where) : where_(where) {
  Breakpoint(where_, {{"at", "begin"}});
}

inline ScopedPoint::~ScopedPoint() {
  Breakpoint(where_, {{"at", Exceptions() > exceptions_ ? "unwind" : "end"}});
}

}  // namespace hs

#endif  // HINDSIGHT_LIBHINDSIGHT_HINDSIGHT_HPP_
