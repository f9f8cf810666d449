// Which array of the files given each argument of a program gets.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/io/safetensors.h"

namespace weft::tools {

// The arrays of files, which lie in `storage`.
struct InputFiles {
  struct Array {
    runtime::ArrayView view;
    bool has_name = false; // of a safetensors file, else of an .npy file, whose path is its name
  };
  std::vector<std::shared_ptr<const void>> storage;
  std::vector<Array> arrays; // in the order of the files, and of their bytes
  std::vector<runtime::UnreadTensor> unread;
};
absl::StatusOr<InputFiles> readInputFiles(const std::vector<std::string> &paths);

// A tensor with a name goes to the argument of that name: of a parameter (weft.parameter), an input
// (weft.name), or of what the program keeps (weft.state), which then begins with it. All others go
// to the other arguments, in order; so do tensors with names where no argument has one.
struct RunInputs {
  std::vector<std::string> names;                           // of the arguments; mostly empty
  std::vector<std::optional<runtime::ArrayView>> arguments; // nothing for what no file gives
  std::vector<std::string> unknown;                         // tensors that no argument is called
  size_t surplus = 0;                                       // arrays behind the last argument
  bool byName = false;                                      // some argument has a name

  // "; no argument is called 'a', 'b'", or nothing.
  std::string unknownText() const;
};
// InvalidArgument where two arrays have one argument's name, or a tensor for an argument is of an
// element type that Weft lacks.
absl::StatusOr<RunInputs> assignInputs(mlir::func::FuncOp main, const InputFiles &files);

// 'a', 'b' and so on; of many names the first ones and how many there are.
std::string listed(const std::vector<std::string> &names);

} // namespace weft::tools
