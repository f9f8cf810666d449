// The data that a compiled object exports: weft_model_code of runtime/aot/weft_model.h.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "mlir/IR/BuiltinOps.h"
#include "runtime/executable/sized_programs.h"
#include "llvm/ADT/ArrayRef.h"

namespace weft::compiler {

// weft_held_code.
struct HeldTensor {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> dims;
  bool isState = false;
  std::optional<llvm::ArrayRef<char>> value; // to be embedded; the caller keeps it
};

// weft_entry_code.
struct EntryCode {
  std::string name; // a C identifier
  runtime::SizedPrograms programs;
  std::vector<std::pair<int32_t, int32_t>> reads, writes; // input or output, held tensor
  std::string deviceCode;                                 // what ModelCode::executableMaker takes
};

struct ModelCode {
  std::string name;                           // a C identifier
  std::vector<std::vector<EntryCode>> levels; // the entries, by kind of processor, the best first
  std::vector<HeldTensor> held;
  std::vector<std::string> libraryFinders; // C functions
  std::string executableMaker;             // a C function; empty where the kernels are the host's
  bool isMain = false;                     // also names the model for the archive's main()
};

// Adds the globals to a module of kernels, and makes the kernels internal, so that objects of
// several models link together. InvalidArgument for a program that does not validate.
absl::Status addModelCode(mlir::ModuleOp module, const ModelCode &code);

// The C header of the model. linkedWith: archives and flags, in the linker's order.
std::string modelHeader(const ModelCode &code, llvm::StringRef linkedWith);

// "float32[2, 3]".
std::string tensorText(DType dtype, llvm::ArrayRef<int64_t> dims);

// The name as a C identifier; empty when nothing of it is left.
std::string cIdentifier(llvm::StringRef name);

} // namespace weft::compiler
