// What users add from outside: kernels of their own, ops of their own dialects, what an op of
// weft's is made of instead, and plugins that bring all of it, passes and backends.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/abi/weft_custom.h"
#include "weft/tensor.h"

namespace weft {

// Loads a plugin for good: a library that exports weft_plugin (passes, dialects, backends;
// compiler/plugin/Plugin.h), weft_pass_plugin, weft_kernel_plugin (kernels;
// runtime/abi/weft_custom.h), or weft_collective_plugin (what carries collectives;
// runtime/abi/weft_collective.h). Loading one twice does nothing. WEFT_PLUGINS=a.so:b.so does the
// same at the start. Errors (kValue): a file that is missing, that is no plugin, or that was built
// for another version; the message names it.
void load_plugin(const std::string &path, Location location = Location::current());

// Registers a kernel for weft::custom. Errors (kValue): a name that is taken, a missing function.
void register_kernel(const weft_custom_kernel &kernel, Location location = Location::current());

// What a kernel is given beside tensors.
struct CustomOptions {
  std::vector<int64_t> ints = {};
  std::vector<double> scalars = {};
};

// Calls a registered kernel as an op, weft.custom: recorded, compiled, evaluated by the reference
// backend and differentiated like any other, where the kernel names a derivative. Shapes and dtypes
// of the results are what its shape rule says. Errors: kValue where no such kernel is registered,
// kShape with what the shape rule says. A program that calls one compiles ahead of time with the
// object that defines weft_kernel_plugin (CompileOptions::link).
std::vector<Tensor> custom(const std::string &kernel, const std::vector<Tensor> &inputs,
                           const CustomOptions &options = {},
                           Location location = Location::current());

using OpAttribute =
    std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>>;

// Records an op by its name, of weft or of a dialect that a plugin registered:
// call_op("mine.softsign", {x}, {{"dim", int64_t(1)}}). The op says itself what its results are
// (MLIR's InferTypeOpInterface or SameOperandsAndResultType) and implements weft's op interface.
// Operands are taken as they are: nothing broadcasts or converts. Errors: kValue for an op or an
// attribute that does not exist, kShape with what the op's verifier says.
std::vector<Tensor> call_op(const std::string &name, const std::vector<Tensor> &operands,
                            const std::vector<std::pair<std::string, OpAttribute>> &attributes = {},
                            Location location = Location::current());

// One call of an op.
struct OpCall {
  std::vector<Tensor> operands;
  std::vector<std::pair<std::string, OpAttribute>> attributes; // all of the op's, by name
};
using OpReplacement = std::function<std::vector<Tensor>(const OpCall &call)>;

// From now on a call of the op records what `replacement` records instead, whoever calls: tensor
// functions, modules, call_op, the derivatives of other ops. All that follows from the op follows:
// gradients, kernels, the reference backend's values, programs that are compiled ahead of time.
//
//   replace_op("weft.gelu", [](const OpCall &call) -> std::vector<Tensor> {
//     const Tensor &x = call.operands[0];
//     return {x * sigmoid(1.702 * x)};
//   });
//
// The results have the dtypes, shapes and devices of the op's own, or the call is an error
// (kShape). Ops that the replacement calls are as Weft has them, the op itself among them. What is
// recorded already, or by jit and trace, stays as it is; ops that compositions such as attention
// become while they are compiled are no calls. The last replacement of an op counts; null gives the
// op back. It may be called on any thread, and on several at once; other threads go on meanwhile,
// and what they write to a tensor that the call is about to write (x += 1) is overwritten. Errors:
// kValue for an op that does not exist, and for one that no call records: weft.constant,
// weft.fusion and their like.
void replace_op(const std::string &op, OpReplacement replacement,
                Location location = Location::current());

} // namespace weft
