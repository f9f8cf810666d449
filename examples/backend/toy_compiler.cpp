#include "toy_compiler.h"

#include <cstring>
#include <optional>

#include "compiler/pipeline/Report.h"
#include "dialects/weft/ir/Attributes.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/TypeSwitch.h"

namespace toy {
namespace {

namespace ir = weft::ir;
using mlir::Operation;
using mlir::Value;
using weft::compiler::CompileOptions;
using weft::compiler::CompileReport;

mlir::RankedTensorType type_of(Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}
llvm::ArrayRef<int64_t> dims_of(Value value) {
  return type_of(value).getShape();
}
bool is_float(Value value) {
  return type_of(value).getElementType().isF32() || type_of(value).getElementType().isF64();
}
bool is_double(Value value) {
  return type_of(value).getElementType().isF64();
}

// Row-major, in elements.
std::vector<int64_t> strides_of(llvm::ArrayRef<int64_t> dims) {
  std::vector<int64_t> strides(dims.size());
  int64_t stride = 1;
  for (size_t d = dims.size(); d-- > 0; stride *= dims[d])
    strides[d] = stride;
  return strides;
}
// For reading a tensor as if it had more and larger dims, as numpy broadcasts.
std::vector<int64_t> broadcast_strides(llvm::ArrayRef<int64_t> from, size_t rank) {
  std::vector<int64_t> strides = strides_of(from), result(rank);
  for (size_t d = 0; d < from.size(); ++d)
    result[rank - from.size() + d] = from[d] == 1 ? 0 : strides[d];
  return result;
}

std::optional<std::pair<Function, int>> function_of(Operation *op) {
  static const auto *table = [] {
    auto *made = new llvm::StringMap<std::pair<Function, int>>;
#define FUNCTION(name, operands, formula) (*made)["weft." #name] = {Function::k_##name, operands};
    TOY_FUNCTIONS(FUNCTION)
#undef FUNCTION
    return made;
  }();
  auto it = table->find(op->getName().getStringRef());
  return it == table->end() ? std::nullopt : std::optional(it->second);
}

class Compiler {
public:
  Compiler(const CompileOptions &options, CompileReport &report)
      : options_(options), report_(report), refusals_("toy") {}

  absl::StatusOr<std::shared_ptr<ToyExecutable>> run(mlir::func::FuncOp main) {
    mlir::Block &block = main.getBody().front();
    mlir::OwningOpRef<mlir::ModuleOp> host = mlir::ModuleOp::create(main.getLoc());
    host_ = *host;
    for (mlir::BlockArgument argument : block.getArguments()) {
      if (absl::Status status = add_slot(argument, -1, Slot::Place::kInput); !status.ok())
        return status;
      program_.slots.back().at = argument.getArgNumber();
      program_.inputs.push_back(spec<weft::runtime::InputSpec>(argument));
    }
    for (Operation &op : block.without_terminator())
      if (absl::Status status = add(&op); !status.ok())
        return status;
    close_chain();
    for (Value value : block.getTerminator()->getOperands())
      if (absl::Status status = add_output(value); !status.ok())
        return status;
    write_in_place(main);
    plan_memory();
    refusals_.flush(&report_);
    report_.plan.arenaBytes = program_.arena_bytes;
    report_.plan.constantBytes = static_cast<int64_t>(program_.constants.size());
    auto ops = std::make_unique<Host>();
    if (absl::Status status = ops->load(*host); !status.ok())
      return status;
    return std::make_shared<ToyExecutable>(std::move(program_), std::move(steps_), std::move(ops));
  }

private:
  Slot &slot_of(Value value) {
    return program_.slots[slots_[value]];
  }
  template <typename Spec> Spec spec(Value value) {
    Spec spec;
    spec.dtype = slot_of(value).dtype;
    spec.dims = dims_of(value).vec();
    spec.bytes = slot_of(value).bytes;
    return spec;
  }

  //===-- Values ------------------------------------------------------------------------------===//

  // step: what writes the value; -1 for inputs.
  absl::Status add_slot(Value value, int32_t step, Slot::Place place = Slot::Place::kArena) {
    auto type = mlir::dyn_cast<mlir::RankedTensorType>(value.getType());
    if (!type || !type.hasStaticShape())
      return absl::UnimplementedError("the toy backend takes tensors of static shape");
    weft::DType dtype = ir::dtypeOf(type.getElementType());
    slots_[value] = static_cast<int32_t>(program_.slots.size());
    program_.slots.push_back({dtype, type.getNumElements() * weft::byte_size(dtype), place});
    lives_.push_back({step, step});
    return absl::OkStatus();
  }

  // The slots that a step reads live until then.
  std::vector<int32_t> read(mlir::ValueRange values) {
    std::vector<int32_t> slots;
    for (Value value : values) {
      slots.push_back(slots_[value]);
      lives_[slots.back()].second = static_cast<int32_t>(steps_.size());
    }
    return slots;
  }

  // A step that makes the results of op from its operands.
  template <typename F> absl::Status step(Operation *op, F make) {
    std::vector<int32_t> inputs = read(op->getOperands()), outputs;
    for (Value result : op->getResults()) {
      if (absl::Status status = add_slot(result, static_cast<int32_t>(steps_.size())); !status.ok())
        return status;
      outputs.push_back(slots_[result]);
    }
    steps_.push_back(make(inputs, outputs));
    return absl::OkStatus();
  }

  // The steps write a result where the caller wants it; what lies in another buffer already is that
  // buffer.
  absl::Status add_output(Value value) {
    auto output = spec<weft::runtime::OutputSpec>(value);
    int32_t slot = slots_[value];
    if (auto [dtype, bytes, place, at] = program_.slots[slot]; place == Slot::Place::kInput)
      output.alias_input = static_cast<int32_t>(at);
    else if (place == Slot::Place::kOutput)
      output.alias_output = static_cast<int32_t>(at);
    else {
      if (place == Slot::Place::kConstants) {
        if (absl::Status status = add_slot(value, steps_.size()); !status.ok())
          return status;
        steps_.push_back(copy_of(slot, slots_[value], bytes));
      }
      slot_of(value).place = Slot::Place::kOutput;
      slot_of(value).at = static_cast<int64_t>(program_.outputs.size());
    }
    program_.outputs.push_back(std::move(output));
    return absl::OkStatus();
  }

  // A result takes the memory of an input that the caller gives up, if nothing reads that once the
  // result is written. A chain may read it still: it reads each element before it writes it. An op
  // of the host may fail, as for a wrong index; inputs are then to be what they were.
  void write_in_place(mlir::func::FuncOp main) {
    if (!host_.getBody()->empty())
      return;
    llvm::DenseSet<int32_t> free;
    for (size_t i = 0; i < program_.inputs.size(); ++i)
      if (main.getArgAttr(i, ir::kDonatableAttr) && program_.inputs[i].bytes > 0)
        free.insert(static_cast<int32_t>(i));
    for (const weft::runtime::OutputSpec &output : program_.outputs)
      free.erase(output.alias_input);
    for (size_t slot = 0; slot < lives_.size(); ++slot) {
      if (program_.slots[slot].place != Slot::Place::kOutput)
        continue;
      int32_t born = lives_[slot].first, last = born - !chains_.contains(born);
      for (int32_t i = 0; i < static_cast<int32_t>(program_.inputs.size()); ++i)
        if (lives_[i].second <= last && program_.inputs[i].bytes == program_.slots[slot].bytes &&
            free.erase(i)) {
          program_.inputs[i].donatable = true;
          program_.outputs[program_.slots[slot].at].donated_input = i;
          break;
        }
    }
  }

  // Values whose lives do not meet share memory.
  void plan_memory() {
    std::vector<std::vector<int32_t>> born(steps_.size() + 1), dying(steps_.size() + 1);
    for (size_t i = 0; i < lives_.size(); ++i) {
      if (program_.slots[i].place != Slot::Place::kArena)
        continue;
      born[lives_[i].first + 1].push_back(static_cast<int32_t>(i));
      if (lives_[i].second < static_cast<int32_t>(steps_.size()))
        dying[std::max(lives_[i].second, 0)].push_back(static_cast<int32_t>(i));
    }
    FirstFit arena(int64_t(1) << 60);
    for (size_t step = 0; step < born.size(); ++step) {
      for (int32_t slot : born[step])
        program_.slots[slot].at = arena.take(program_.slots[slot].bytes);
      if (step > 0)
        for (int32_t slot : dying[step - 1])
          arena.give(program_.slots[slot].at, program_.slots[slot].bytes);
    }
    program_.arena_bytes = arena.highest();
  }

  //===-- Ops ---------------------------------------------------------------------------------===//

  absl::Status add(Operation *op) {
    if (auto constant = mlir::dyn_cast<ir::ConstantOp>(op))
      return add_constant(constant);
    if (auto reshape = mlir::dyn_cast<ir::ReshapeOp>(op))
      return add_alias(reshape);
    llvm::StringRef reason = why_not(op);
    if (!reason.empty()) {
      close_chain();
      return add_host(op, reason);
    }
    if (function_of(op))
      return add_to_chain(op);
    close_chain();
    ++report_.launches;
    return llvm::TypeSwitch<Operation *, absl::Status>(op)
        .Case([&](ir::MatmulOp matmul) { return add_matmul(matmul); })
        .Case([&](ir::BroadcastOp broadcast) {
          return add_gather(
              op, broadcast_strides(dims_of(op->getOperand(0)), dims_of(op->getResult(0)).size()),
              0);
        })
        .Case([&](ir::TransposeOp transpose) {
          std::vector<int64_t> from = strides_of(dims_of(op->getOperand(0))), strides;
          for (int64_t dim : transpose.getPermutation())
            strides.push_back(from[dim]);
          return add_gather(op, strides, 0);
        })
        .Case([&](ir::SliceOp slice) {
          std::vector<int64_t> strides = strides_of(dims_of(op->getOperand(0)));
          int64_t offset = 0;
          for (size_t d = 0; d < strides.size(); ++d) {
            offset += slice.getStarts()[d] * strides[d];
            strides[d] *= slice.getSteps()[d];
          }
          return add_gather(op, strides, offset);
        })
        .Default([&](Operation *) { return add_reduce(op); });
  }

  // The named reason why the device has no kernel for the op; empty where it has one.
  llvm::StringRef why_not(Operation *op) const {
    if (!options_.claim)
      return "claims-off";
    if (mlir::isa<ir::BroadcastOp, ir::TransposeOp, ir::SliceOp>(op))
      return "";
    bool known = function_of(op) || mlir::isa<ir::MatmulOp, ir::ReduceSumOp, ir::ReduceMaxOp>(op);
    if (!known)
      return "no-kernel";
    return is_float(op->getOperand(0)) ? "" : "dtype";
  }

  absl::Status add_constant(ir::ConstantOp op) {
    ir::HostTensor tensor = ir::HostTensor::from(op.getValue());
    if (absl::Status status = add_slot(op.getResult(), 0, Slot::Place::kConstants); !status.ok())
      return status;
    program_.constants.resize((program_.constants.size() + 63) / 64 * 64);
    program_.slots.back().at = static_cast<int64_t>(program_.constants.size());
    program_.constants.insert(program_.constants.end(), tensor.bytes.begin(), tensor.bytes.end());
    return absl::OkStatus();
  }

  // A reshape is the same bytes.
  absl::Status add_alias(ir::ReshapeOp op) {
    close_chain(); // its input must be in memory
    slots_[op.getResult()] = slots_[op.getInput()];
    return absl::OkStatus();
  }
  static Step copy_of(int32_t from, int32_t to, int64_t bytes) {
    return [=](const Run &run) {
      run_gather(run.device(), {{bytes}, {1}, 0, 1}, run.address(from), run.address(to));
      return absl::OkStatus();
    };
  }

  absl::Status add_gather(Operation *op, std::vector<int64_t> strides, int64_t offset) {
    Gather gather{dims_of(op->getResult(0)).vec(), std::move(strides), offset,
                  weft::byte_size(ir::dtypeOf(type_of(op->getResult(0)).getElementType()))};
    return step(op, [&](auto &in, auto &out) -> Step {
      return [gather, in = in[0], out = out[0]](const Run &run) {
        run_gather(run.device(), gather, run.address(in), run.address(out));
        return absl::OkStatus();
      };
    });
  }

  absl::Status add_matmul(ir::MatmulOp op) {
    llvm::ArrayRef<int64_t> lhs = dims_of(op.getLhs()), rhs = dims_of(op.getRhs()),
                            result = dims_of(op.getResult());
    Matmul matmul;
    matmul.m = result[result.size() - 2], matmul.n = result.back();
    matmul.k = lhs[lhs.size() - (op.getTransposeLhs() ? 2 : 1)];
    matmul.lhs_row = op.getTransposeLhs() ? 1 : lhs.back(),
    matmul.lhs_column = op.getTransposeLhs() ? lhs.back() : 1;
    matmul.rhs_row = op.getTransposeRhs() ? 1 : rhs.back(),
    matmul.rhs_column = op.getTransposeRhs() ? rhs.back() : 1;
    // Where the matrices of each product start.
    llvm::ArrayRef<int64_t> batch = result.drop_back(2);
    auto starts = [&](llvm::ArrayRef<int64_t> dims) {
      std::vector<int64_t> strides = broadcast_strides(dims.drop_back(2), batch.size()), all = {0};
      for (size_t d = 0; d < batch.size(); ++d) {
        std::vector<int64_t> next;
        for (int64_t start : all)
          for (int64_t i = 0; i < batch[d]; ++i)
            next.push_back(start + i * strides[d] * dims[dims.size() - 2] * dims.back());
        all = std::move(next);
      }
      return all;
    };
    matmul.lhs_matrices = starts(lhs), matmul.rhs_matrices = starts(rhs);
    bool wide = is_double(op.getLhs());
    return step(op, [&](auto &in, auto &out) -> Step {
      return [matmul, wide, in, out = out[0]](const Run &run) {
        (wide ? run_matmul<double> : run_matmul<float>)(run.device(), matmul, run.address(in[0]),
                                                        run.address(in[1]), run.address(out));
        return absl::OkStatus();
      };
    });
  }

  absl::Status add_reduce(Operation *op) {
    llvm::ArrayRef<int64_t> dims = dims_of(op->getOperand(0));
    auto reduced = mlir::cast<mlir::DenseI64ArrayAttr>(*op->getInherentAttr("dims")).asArrayRef();
    Reduce reduce;
    reduce.maximum = mlir::isa<ir::ReduceMaxOp>(op);
    reduce.dims = dims.vec();
    reduce.strides.resize(dims.size());
    for (size_t d = dims.size(); d-- > 0;) {
      if (llvm::is_contained(reduced, static_cast<int64_t>(d)))
        continue;
      reduce.strides[d] = reduce.results;
      reduce.results *= dims[d];
    }
    bool wide = is_double(op->getOperand(0));
    return step(op, [&](auto &in, auto &out) -> Step {
      return [reduce, wide, in = in[0], out = out[0]](const Run &run) {
        (wide ? run_reduce<double> : run_reduce<float>)(run.device(), reduce, run.address(in),
                                                        run.address(out));
        return absl::OkStatus();
      };
    });
  }

  // Evaluates the op on the host, by the rule that specifies it: slow, and always right.
  absl::Status add_host(Operation *op, llvm::StringRef reason) {
    llvm::StringRef explanation =
        reason == "no-kernel" ? "the device has no kernel for the op, which the host evaluates"
        : reason == "dtype"   ? "the device computes float32 and float64; the host evaluates the op"
                              : "nothing may be claimed; the host evaluates the op";
    // A reason for each op, so that none hides another.
    refusals_.add((reason + "(" + op->getName().getStringRef() + ")").str(), op, explanation);
    mlir::OpBuilder builder = mlir::OpBuilder::atBlockEnd(host_.getBody());
    std::string name = "host" + std::to_string(steps_.size());
    auto function = mlir::func::FuncOp::create(
        builder, op->getLoc(), name,
        builder.getFunctionType(op->getOperandTypes(), op->getResultTypes()));
    mlir::Block *block = function.addEntryBlock();
    builder.setInsertionPointToEnd(block);
    mlir::IRMapping mapping;
    for (auto [operand, argument] : llvm::zip(op->getOperands(), block->getArguments()))
      mapping.map(operand, argument);
    // One value may be several operands: each is the argument at its place.
    Operation *copy = builder.clone(*op, mapping);
    copy->setOperands(block->getArguments());
    mlir::func::ReturnOp::create(builder, op->getLoc(), copy->getResults());
    // A slot that a reshape shares has other dims than the operand.
    std::vector<std::vector<int64_t>> dims;
    for (Value operand : op->getOperands())
      dims.push_back(dims_of(operand).vec());
    return step(op, [&](auto &in, auto &out) -> Step {
      return [name, in, out, dims](const Run &run) {
        std::vector<ir::HostTensor> arguments;
        for (size_t i = 0; i < in.size(); ++i) {
          ir::HostTensor tensor(run.slot(in[i]).dtype, dims[i]);
          run.device().copy_out(tensor.bytes.data(), run.address(in[i]), run.slot(in[i]).bytes);
          arguments.push_back(std::move(tensor));
        }
        llvm::SmallVector<ir::HostTensor> results;
        if (absl::Status status = run.host().run(name, std::move(arguments), results); !status.ok())
          return status;
        for (size_t i = 0; i < out.size(); ++i)
          run.device().copy_in(run.address(out[i]), results[i].bytes.data(),
                               run.slot(out[i]).bytes);
        return absl::OkStatus();
      };
    });
  }

  //===-- Chains ------------------------------------------------------------------------------===//

  // Elementwise ops of one type, one after another, are one kernel.
  absl::Status add_to_chain(Operation *op) {
    bool fits = !chain_.empty() && options_.fuse &&
                chain_.front()->getResultTypes() == op->getResultTypes();
    if (!fits)
      close_chain();
    chain_.push_back(op);
    return absl::OkStatus();
  }

  void close_chain() {
    if (chain_.empty())
      return;
    Chain chain;
    chain.count = type_of(chain_.front()->getResult(0)).getNumElements();
    llvm::DenseMap<Value, int32_t> registers;
    llvm::SmallVector<Value> inputs, outputs;
    llvm::DenseSet<Operation *> inside(chain_.begin(), chain_.end());
    for (Operation *op : chain_)
      for (Value operand : op->getOperands())
        if (!inside.contains(operand.getDefiningOp()) &&
            registers.try_emplace(operand, inputs.size()).second)
          inputs.push_back(operand);
    chain.inputs = static_cast<int32_t>(inputs.size());
    for (Operation *op : chain_) {
      auto [function, operands] = *function_of(op);
      int32_t x = registers[op->getOperand(0)];
      chain.ops.push_back({function, x, operands == 2 ? registers[op->getOperand(1)] : x});
      int32_t result = chain.inputs + static_cast<int32_t>(chain.ops.size()) - 1;
      registers[op->getResult(0)] = result;
      if (llvm::all_of(op->getUsers(), [&](Operation *user) { return inside.contains(user); }))
        continue;
      outputs.push_back(op->getResult(0));
      chain.outputs.push_back(result);
    }
    bool wide = is_double(chain_.front()->getResult(0));
    chain_.clear();
    std::vector<int32_t> in = read(inputs), out;
    for (Value output : outputs) {
      // Its type was checked where its operands came from: all of a chain have one.
      (void)add_slot(output, static_cast<int32_t>(steps_.size()));
      out.push_back(slots_[output]);
    }
    ++report_.launches;
    ++report_.kernels;
    chains_.insert(static_cast<int32_t>(steps_.size()));
    steps_.push_back([chain, wide, in, out](const Run &run) {
      (wide ? run_chain<double> : run_chain<float>)(run.device(), chain, run.addresses(in),
                                                    run.addresses(out));
      return absl::OkStatus();
    });
  }

  const CompileOptions &options_;
  CompileReport &report_;
  weft::compiler::RefusalCollector refusals_;
  Program program_;
  std::vector<Step> steps_;
  mlir::ModuleOp host_;
  llvm::DenseMap<Value, int32_t> slots_;
  std::vector<std::pair<int32_t, int32_t>>
      lives_;                      // of each slot: the step that writes it, the last that reads it
  llvm::DenseSet<int32_t> chains_; // the steps that are some
  llvm::SmallVector<Operation *> chain_; // elementwise ops that wait to become a step
};

} // namespace

absl::StatusOr<std::shared_ptr<ToyExecutable>>
compile(mlir::ModuleOp module, const CompileOptions &options, CompileReport &report) {
  auto main = module.lookupSymbol<mlir::func::FuncOp>("main");
  if (!main || !llvm::hasSingleElement(main.getBody()))
    return absl::InvalidArgumentError("the module has no function @main with one block");
  return Compiler(options, report).run(main);
}

} // namespace toy
