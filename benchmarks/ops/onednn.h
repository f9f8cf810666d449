// The contestant `onednn` of the suite `ops`: the best that the library does with a problem, called
// without anything between.
#pragma once

#include <functional>

#include "benchmarks/ops/problems.h"

namespace weft::benchmarks {

// Each primitive in the layouts that the library picks itself (format_tag::any: activations stay in
// them, weights were brought into them before) and in the plain ones that suit it on some machines;
// the fastest of them, by a trial on this machine. No reorder is part of it: it is what a program
// could reach whose values all lie as each op wants them. Empty for a problem that is none;
// dnnl::error where the library fails.
std::function<void()> onednn_best(const LibraryProblem &problem);

} // namespace weft::benchmarks
