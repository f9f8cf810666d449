// What a call throws, for tests of errors.
#pragma once

#include <string>

#include "weft/error.h"

namespace weft::testing_support {

// The error that the call throws; one that says so when it throws none.
template <typename F> Error error_of(F call) {
  try {
    call();
  } catch (const Error &error) {
    return error;
  }
  return Error(ErrorKind::kState, "nothing was thrown");
}

template <typename F> std::string message_of(F call) { return error_of(call).message(); }

} // namespace weft::testing_support

// The call throws an error whose message has `part` in it.
#define EXPECT_MESSAGE(call, part)                                                                                                         \
  EXPECT_NE(::weft::testing_support::message_of([&] { call; }).find(part), std::string::npos)                                              \
      << ::weft::testing_support::message_of([&] { call; })
