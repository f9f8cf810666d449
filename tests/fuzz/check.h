// What must hold for every program, and making one smaller that breaks it.
#pragma once

#include <string>

#include "tests/fuzz/program.h"

namespace weft::fuzz {

// Empty, or what went wrong: how the program was run, which output differs and where.
//   cpu with one thread = with two = unfused = evaluated call by call, bit for bit;
//   reference = evaluated call by call, bit for bit;
//   every op of the recorded program, run by the cpu on what it was given there, lies within its
//   error budget of reference evaluation;
//   its function called = jitted = traced (function.h).
std::string check(const Program &program);

// The smallest program that can be reached by dropping outputs and steps, putting inputs in the
// place of steps, and shrinking shapes, such that check() still finds something.
Program reduce(const Program &program);

// The report of a failure: the seed, what went wrong, the reduced program as C++.
std::string report(const Program &program, const std::string &what);

} // namespace weft::fuzz
