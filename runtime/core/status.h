// Errors that are passed on, as abseil's users write it, and the first of several.
#pragma once

#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns the status that the expression gives where it is an error.
#define WEFT_RETURN_IF_ERROR(...)                                                                  \
  if (absl::Status weft_status = (__VA_ARGS__); !weft_status.ok())                                 \
  return weft_status

// Declares, or gives to what is there, what the StatusOr of the expression holds, or returns its
// error: WEFT_ASSIGN_OR_RETURN(Problem problem, read(call)), WEFT_ASSIGN_OR_RETURN(problem, ...).
// Several statements: in braces behind an if.
#define WEFT_ASSIGN_OR_RETURN(declaration, ...)                                                    \
  WEFT_ASSIGN_OR_RETURN_(WEFT_NAME_OF_LINE(weft_result_, __LINE__), declaration, (__VA_ARGS__))

#define WEFT_ASSIGN_OR_RETURN_(result, declaration, expression)                                    \
  auto result = expression;                                                                        \
  if (!result.ok())                                                                                \
    return std::move(result).status();                                                             \
  declaration = *std::move(result)
#define WEFT_NAME_OF_LINE(name, line) WEFT_NAME_OF_LINE_(name, line)
#define WEFT_NAME_OF_LINE_(name, line) name##line

namespace weft::runtime {

// The first of them that is an error, or OK.
inline absl::Status first_error(std::span<const absl::Status> statuses) {
  for (const absl::Status &status : statuses)
    if (!status.ok())
      return status;
  return absl::OkStatus();
}

} // namespace weft::runtime
