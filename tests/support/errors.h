// What a call throws, for tests of errors.
#pragma once

#include <source_location>
#include <string>

#include <gtest/gtest.h>

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

template <typename F> std::string message_of(F call) {
  return error_of(call).message();
}

// With its line.
template <typename F> std::string what_of(F call) {
  return error_of(call).what();
}

// The message of the error that the call throws, "" if it throws none. The error is of this kind
// and names a line of the test's own file: that line, if one is given.
template <typename F>
std::string message_of(F call, ErrorKind kind, int line = 0,
                       std::source_location caller = std::source_location::current()) {
  try {
    call();
  } catch (const Error &error) {
    EXPECT_EQ(name(error.kind()), std::string(name(kind))) << error.what();
    EXPECT_EQ(error.file(), std::string(caller.file_name())) << error.what();
    if (line > 0)
      EXPECT_EQ(error.line(), line) << error.what();
    return error.message();
  }
  return "";
}

} // namespace weft::testing_support

// The call throws an error whose message has `part` in it.
#define EXPECT_MESSAGE(call, part)                                                                 \
  EXPECT_NE(::weft::testing_support::message_of([&] { call; }).find(part), std::string::npos)      \
      << ::weft::testing_support::message_of([&] { call; })
