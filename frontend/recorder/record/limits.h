// Bounds of what the recorder keeps for later, each with its reason; those that users may want to
// change are in weft::Config.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::recorder {

struct RecorderLimits {
  // Records of evaluations: enough to look back over a few steps.
  size_t evaluations = 256;
  // Variants of one signature's derivative: which operands want a gradient differs from call to
  // call, but seldom in more ways.
  size_t derivatives = 8;
  // Values that an error looks through for its reason: those of a layer or two.
  size_t searched_values = 256;
  // Families, the least recently used going first: their programs stay in the program cache until
  // that drops them.
  size_t families = 512;
  // Keys and observations of all families: some 30 programs of 100,000 ops.
  int64_t family_bytes = int64_t(128) << 20;
  // What a family remembers. Two observations show what varies; more of them keep what varied
  // before.
  size_t observations = 4;
  // How deep families lie below one another: each level is a size that could not vary. At the last
  // one all that are left are taken to be such.
  uint32_t family_depth = 4;
  // Families in a row, alike but for a size, that found the same ones of the others not to vary:
  // the next ones do not try.
  int refused_below = 2;
  // Sizes that a library was found not to take, in networks of one structure and several widths.
  size_t refused_sizes = 16;
  // Programs at particular sizes that a symbolic one keeps ready: each holds an instruction table,
  // and library primitives.
  size_t sized_programs = 16;
  // Slices whose sets of stable leaves are remembered, and the bytes of them: those of a loop are
  // few. Beyond it all are forgotten, and at worst a program is compiled again.
  size_t stable_slices = 4096;
  int64_t stable_bytes = int64_t(16) << 20;
  // Bytes of exchanges that are worth the end of a program before them: they take some 0.1 ms on a
  // fast network, and a program's end a few launches.
  int64_t exchanged_bytes = int64_t(1) << 20;
  // Ways from one cut of a tensor over a mesh to another: a few for each tensor's type.
  uint32_t reshardings = 1024;
  // Memory of inputs that recorded ops alone keep, as those of a metric that is added up and not
  // read keep its batches: a cut computes them then. Small beside the memory of a machine that
  // trains, and several batches of images, so that what is cut is worth a program.
  // Config::budget_bytes where that is less.
  int64_t input_bytes = int64_t(256) << 20;
  // So often a place for that cut is looked for, each time after as many bytes more; the last look
  // cuts where it is. When a loop has dropped three batches in the middle of its body, two whole
  // iterations are there, which say where it begins.
  int input_looks = 3;
  // A record of so many ops that nobody has asked for is looked at, and each time after as it has
  // doubled: where most of it repeats at least `repeats` times, whole iterations become a program.
  // Its compilation takes a part of a second, and its run some hundred times what a launch costs,
  // so that nothing is gained by a longer one.
  int64_t repeated_ops = 2048;
  size_t repeats = 8;
  // Ops that stay recorded for the temporaries of one line, so that what is computed again, where
  // they turn out to be none, is little: a longer expression is seldom written in one line.
  size_t temporary_ops = 32;
  // Types, source lines, signatures and attributes that calls found last, as powers of two: far
  // more than a model's step has, so that few share a place. A call that finds another one in its
  // place looks the table up, some 50 ns, and more where the table has left the processor's caches;
  // MLIR's table of attributes takes 100 ns.
  int recent_type_bits = 10;
  int recent_attribute_bits = 8;
  int recent_line_bits = 12;
  int recent_signature_bits = 12;
};

inline constexpr RecorderLimits kLimits;

} // namespace weft::recorder
