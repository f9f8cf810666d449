// What a weft::Program holds.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "frontend/programs/bound_program.h"
#include "frontend/recorder/record/values.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "weft/jit.h"

namespace weft::recorder {

struct ProgramImpl;

// Of a program whose batch is a range: what runs a batch of one size.
struct SizedProgram {
  SizedProgram(int64_t size, uint64_t context, std::shared_ptr<ProgramImpl> program)
      : size(size), context(context), program(std::move(program)) {
    ++count;
  }
  ~SizedProgram() {
    --count;
  }
  SizedProgram(const SizedProgram &) = delete;
  SizedProgram &operator=(const SizedProgram &) = delete;

  int64_t size;
  uint64_t context; // ProgramContext::salt() of its compilation
  std::shared_ptr<ProgramImpl> program;

  inline static std::atomic<int64_t> count = 0;
};

struct ProgramImpl {
  ProgramImpl() = default;
  ~ProgramImpl();

  std::mutex mutex; // of the module and its context
  std::unique_ptr<mlir::MLIRContext> context;
  // @main takes the inputs of a run and then what the program keeps (weft.state); it returns the
  // outputs and then what it writes (weft.writes).
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::vector<TypeRef> inputs, outputs;
  // Which inputs' leading dims may have which sizes; inputs and outputs above have the largest.
  BatchRange batch;
  // What the program keeps between runs: its own tensors, in the order of @main's arguments.
  std::vector<std::pair<std::string, Tensor>> state;

  std::string description = "a loaded or traced program"; // for explain

  std::mutex compiling;                 // one thread compiles, the others wait for it
  std::optional<uint64_t> compiled_for; // under it: ProgramContext::salt()
  // Under `compiling`: programs for the sizes of the batch that were run last, the newest first.
  std::list<SizedProgram> sized;
  // One of another's `sized`. It is compiled once, and then has neither module nor context, which
  // would hold the function's constants once more.
  bool is_sized = false;
  // Under the recorder's lock.
  BoundProgram bound;
};

// An empty program with a context of its own, for the thread's device.
std::shared_ptr<ProgramImpl> make_program();

// Fills the program's module; else as parse_program.
void parse_module(ProgramImpl &program, llvm::StringRef source, const std::string &name,
                  Location location);
// Reads text or bytecode; `name` is what errors call it. Throws kFile with what the parser says.
// device: that it runs on; the thread's where none is given.
std::shared_ptr<ProgramImpl> parse_program(llvm::StringRef source, const std::string &name,
                                           Location location,
                                           std::optional<uint8_t> device = std::nullopt);
// Fills inputs, outputs and state from @main, and binds them. Throws kFile where the module has no
// @main of tensors of static shape, or what it keeps or writes does not fit. keeper: whose tensors
// the program keeps, in place of some of its own with the module's first values.
void describe_main(ProgramImpl &program, const std::string &name, Location location,
                   const ProgramImpl *keeper = nullptr);
// Throws kCompile where it cannot be written.
std::string bytecode_of(mlir::ModuleOp module, Location location);
// With what the program keeps now as its state's first values.
std::string bytecode_of(ProgramImpl &program, Location location);
// Without first values: describe_main() takes it with a keeper.
std::string bytecode_without_values(ProgramImpl &program, Location location);
// Throws kState for none.
ProgramImpl &checked_program(const std::shared_ptr<ProgramImpl> &impl, Location location);

} // namespace weft::recorder
