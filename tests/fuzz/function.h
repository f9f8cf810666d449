// A random program as a function: called, jitted and traced it must do the same.
#pragma once

#include <string>
#include <vector>

#include "tests/fuzz/program.h"

namespace weft::fuzz {

// How a program's inputs reach its function. Follows from what the inputs are, not from where they
// stand, so that a program keeps its form while it is made smaller.
struct FunctionForm {
  std::vector<int> arguments; // places of the inputs that are passed; the function captures others
  std::vector<int> same;      // by place: the earlier input whose tensor this one is, too, or -1
  bool other_values = false;  // the second call has other arguments than the first
};
FunctionForm form_of(const Program &program);

// Empty, or what differs between the program's function called twice, jitted and called twice, and
// traced and run twice: results; after each call the inputs, captured or passed, and their
// gradients; all of these after a backward pass through the results, and after writes to the
// results, which share no memory with anything. What a Program captured is its own, and its results
// have no history: of a trace the results and the arguments are compared, whose second values show
// its state.
// By reference evaluation, and for some programs on the cpu, which compiles each of the ways.
std::string check_functions(const Program &program);

// Of all programs that were checked: how many have a function that can be called twice.
struct FunctionCounts {
  int64_t checked = 0, refused = 0;
};
FunctionCounts function_counts();

// The program as a function in C++ (program.cpp): its lines, and the calls.
std::string function_to_cpp(const Program &program);

} // namespace weft::fuzz
