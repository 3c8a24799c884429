// The two macros that move absl::Status up the stack. Debian's Abseil (20220623) has none.

#ifndef HINDSIGHT_BASE_STATUS_MACROS_H_
#define HINDSIGHT_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define HINDSIGHT_CONCAT_INNER(a, b) a##b
#define HINDSIGHT_CONCAT(a, b) HINDSIGHT_CONCAT_INNER(a, b)

// Returns the status of `expr` from the enclosing function unless it is OK.
#define RETURN_IF_ERROR(expr)                                                           \
  do {                                                                                  \
    if (absl::Status status_macro_ = (expr); !status_macro_.ok()) return status_macro_; \
  } while (false)

// Evaluates `expr`, an absl::StatusOr; assigns its value to `lhs` or returns its status.
#define ASSIGN_OR_RETURN(lhs, expr) \
  ASSIGN_OR_RETURN_INNER(HINDSIGHT_CONCAT(status_or_, __LINE__), lhs, expr)
#define ASSIGN_OR_RETURN_INNER(tmp, lhs, expr)   \
  auto tmp = (expr);                             \
  if (!tmp.ok()) return std::move(tmp).status(); \
  lhs = *std::move(tmp)

#endif  // HINDSIGHT_BASE_STATUS_MACROS_H_
