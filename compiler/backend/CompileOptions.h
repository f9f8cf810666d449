// What a caller asks of a compilation. A plain struct: tools bind flags to it, libraries read no
// global state.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace weft::compiler {

// How far results may be from those of the ops' formulas, computed term by term.
enum class MathMode {
  Exact,   // as far as sums in another order are
  Default, // and where a library's algorithm has an error bound of a few times that (Winograd's
           // convolutions)
  Fast     // and NaN handling traded for speed
};

// Their names, as the tools' --math takes them.
inline const std::map<std::string, MathMode> &mathModes() {
  static const auto *modes = new std::map<std::string, MathMode>{
      {"exact", MathMode::Exact}, {"standard", MathMode::Default}, {"fast", MathMode::Fast}};
  return *modes;
}

struct CompileOptions {
  // false: each op becomes a kernel of its own. Results stay the same bit for bit.
  bool fuse = true;
  // false: no provider claims anything; every op runs as our own kernel.
  bool claim = true;
  // false: the planner never gives two values one buffer in place (aliases of reshapes stay).
  bool inPlace = true;
  // Writes of few rows into what may be overwritten are kernels that write these alone. false: the
  // backend's write all of their result (compiler/fusion/WriteInPlace.h).
  bool writeRows = true;
  // false: arguments marked stable are like any others; nothing is computed ahead of runs or
  // packed.
  bool prepare = true;
  // Outputs are aligned as arenas are, so that other values may lie in them before they are
  // written. Not so where they are memory of the caller's.
  bool lendOutputs = true;
  // Bytes that a program may take beside its inputs. One that would take more
  // computes values again instead of keeping them. 0: no limit; large programs compute again what
  // costs next to nothing. Results stay the same bit for bit.
  int64_t memoryLimit = 0;
  // Under that limit values may wait in files where that costs less (Config::memory_folder), on
  // backends whose memory the host reads.
  bool memoryFiles = false;
  MathMode math = MathMode::Default;
  // Folder of the file that has measured choices of kernels; empty for none
  // (compiler/schedule/Measured.h). Results stay the same bit for bit.
  std::string schedules;
  // Kernels that the file does not know are measured, until this process has measured for so many
  // seconds. 0: none are.
  double tuneSeconds = 0;
  // Threads that compile kernels; 0 for one a core.
  int compileThreads = 0;
  // Runs the verifier after each phase and the planner's own proof that no two live values share
  // bytes. The proof always runs once at the end of the plan phase; this asks for the IR verifier
  // in between as well.
  bool verifyEachPhase = false;
  // Folder for one file a phase and one a kernel; empty for none.
  std::string dumpDir;
  // CPU to compile for, as LLVM names it; empty for this machine.
  std::string cpu;
  // LLVM feature string (+avx2,-avx512f ...) on top of the CPU's own; empty for none. With an empty
  // `cpu`, the machine's features are used.
  std::string features;
};

} // namespace weft::compiler
