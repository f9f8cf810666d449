#include "compiler/link/BuildProgram.h"

#include <algorithm>

#include "compiler/codegen/Kernel.h"
#include "compiler/pipeline/Report.h"
#include "compiler/plan/Extract.h"
#include "compiler/plan/IndexChecks.h"
#include "dialects/weft/ir/Dims.h"
#include "dialects/weft/ir/IndexBounds.h"
#include "dialects/weft/ir/SizeNames.h"
#include "dialects/weft/reference/HostTensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "runtime/core/status.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/TypeSwitch.h"

namespace weft::compiler {

using namespace mlir;

namespace {

using plan::bytesOf;

// The share of an operand that a kernel may read: of one that is only looked up or sliced, as a
// table of embeddings is, no more than what comes of that.
double shareRead(Value operand) {
  auto type = ir::typeOf(operand);
  double read = 0;
  for (OpOperand &use : operand.getUses()) {
    if (use.getOperandNumber() != 0 ||
        !isa<ir::IndexSelectOp, ir::GatherOp, ir::SliceOp>(use.getOwner()))
      return 1;
    auto result = ir::typeOf(use.getOwner()->getResult(0));
    read += double(result.getNumElements());
  }
  return std::min(1.0, read / std::max(double(type.getNumElements()), 1.0));
}

// What a profile says of the kernel's launches.
runtime::KernelNote noteOf(plan::KernelOp kernel) {
  runtime::KernelNote note;
  bool varies = kernel->hasAttr(kSizedAttr);
  auto count = double(std::max<int64_t>(int64_t(kernel.getCount()), 1));
  if (kernel.getFlops())
    note.flops_of_piece = kernel.getFlops()->convertToDouble() / count;
  auto add = [&](Type given, double share) {
    auto type = dyn_cast<RankedTensorType>(given);
    if (!type || !type.hasStaticShape())
      return;
    DType dtype = ir::dtypeOf(type.getElementType());
    double bytes = share * double(type.getNumElements()) * double(byte_size(dtype));
    if (varies && ir::hasNamedDims(type))
      note.bytes_of_piece += bytes / count;
    else
      note.fixed_bytes += bytes;
    note.types += std::string(name(dtype)) + "[";
    for (auto [i, dim] : llvm::enumerate(type.getShape()))
      note.types += (i > 0 ? "," : "") + std::to_string(dim);
    note.types += "]";
  };
  auto fusions = kernel.getBody().front().getOps<ir::FusionOp>();
  Block *body = fusions.empty() ? nullptr : &(*fusions.begin()).getBody().front();
  for (auto [i, type] : llvm::enumerate(kernel.getFunctionType().getInputs())) {
    note.types += note.types.empty() ? "" : " ";
    add(type, body && i < body->getNumArguments() ? shareRead(body->getArgument(i)) : 1);
  }
  note.types += " ->";
  for (Type type : kernel.getFunctionType().getResults()) {
    note.types += " ";
    add(type, 1);
  }
  return note;
}

absl::Status invalid(Operation *op, StringRef what) {
  return absl::InvalidArgumentError((op->getName().getStringRef() + ": " + what).str());
}

std::optional<runtime::ConfigValue> configValue(Attribute attribute) {
  return TypeSwitch<Attribute, std::optional<runtime::ConfigValue>>(attribute)
      .Case([](BoolAttr value) { return runtime::ConfigValue(int64_t(value.getValue())); })
      .Case([](UnitAttr) { return runtime::ConfigValue(int64_t(1)); })
      .Case([](IntegerAttr value) { return runtime::ConfigValue(value.getValue().getSExtValue()); })
      .Case([](FloatAttr value) { return runtime::ConfigValue(value.getValueAsDouble()); })
      .Case([](StringAttr value) { return runtime::ConfigValue(value.str()); })
      .Case([](DenseI64ArrayAttr value) {
        return runtime::ConfigValue(
            std::vector<int64_t>(value.asArrayRef().begin(), value.asArrayRef().end()));
      })
      .Case([](ArrayAttr value) -> std::optional<runtime::ConfigValue> {
        std::vector<int64_t> list;
        for (Attribute element : value) {
          auto integer = dyn_cast<IntegerAttr>(element);
          if (!integer)
            return std::nullopt;
          list.push_back(integer.getInt());
        }
        return runtime::ConfigValue(std::move(list));
      })
      .Default([](Attribute) { return std::nullopt; });
}

class Builder {
public:
  Builder(plan::ProgramOp source, StringRef target, const PlanReport &report,
          runtime::SizeTable *table)
      : source_(source), kernels_(source->getParentOp()), table_(table) {
    program_.target = target.str();
    program_.arena_bytes = report.arenaBytes;
    // Outputs are acquired before the first instruction, so that they count from there on.
    program_.peak_bytes = report.arenaBytes + report.outputBytes;
    program_.live_bytes_bound = report.liveBound + report.outputBytes;
    for (const PeakPart &part : report.peakParts)
      program_.memory.peak_holders.push_back({part.bytes, part.what, part.line, part.module});
    program_.memory.live_bytes = report.liveBytes;
  }

  absl::StatusOr<runtime::Program> build(plan::ProgramOp prepare) {
    WEFT_RETURN_IF_ERROR(checkNames());
    WEFT_RETURN_IF_ERROR(addPrepare(prepare));
    addInputs();
    for (Operation &op : source_.getBody().front()) {
      absl::Status status =
          TypeSwitch<Operation *, absl::Status>(&op)
              .Case<plan::LaunchOp, plan::LibraryCallOp, plan::PiecesOp, plan::CopyOp, plan::FillOp,
                    plan::ReturnOp, plan::ArenaOp>([&](auto concrete) { return add(concrete); })
              .Case<plan::ViewOp, plan::ConstantOp, plan::OutputOp>(
                  [](auto) { return absl::OkStatus(); })
              .Default([](Operation *other) {
                return invalid(other, "is no part of a packed program");
              });
      if (!status.ok())
        return status;
    }
    WEFT_RETURN_IF_ERROR(bindOutputs());
    if (!sizes_.entries.empty()) {
      for (Operation &op : source_.getBody().front())
        if (isa<plan::CopyOp, plan::FillOp>(op) &&
            llvm::any_of(op.getOperands(), [&](Value value) { return isSized(value); })) {
          std::string line = locationText(&op);
          return absl::UnimplementedError("an input or a result whose size varies is copied whole" +
                                          (line.empty() ? line : " (" + line + ")"));
        }
      if (!table_)
        return absl::UnimplementedError("programs of this backend have no sizes that vary");
      *table_ = std::move(sizes_);
    }
    WEFT_RETURN_IF_ERROR(runtime::validate(program_));
    return std::move(program_);
  }

private:
  static std::string nameOf(Attribute name) {
    return name ? cast<StringAttr>(name).str() : std::string();
  }
  // Passes of users may set attributes that no verifier knows.
  absl::Status checkNames() {
    auto check = [&](const char *what, unsigned i, Attribute name) -> absl::Status {
      if (!name || isa<StringAttr>(name))
        return absl::OkStatus();
      return invalid(source_, std::string("has a name that is no string, of ") + what + " " +
                                  std::to_string(i));
    };
    absl::Status status;
    for (unsigned i = 0; i < source_.getNumArguments(); ++i)
      for (StringRef name : {plan::kParameterAttr, plan::kNameAttr})
        status.Update(check("argument", i, source_.getArgAttr(i, name)));
    for (unsigned i = 0; i < source_.getResultTypes().size(); ++i)
      status.Update(check("result", i, source_.getResultAttr(i, plan::kNameAttr)));
    return status;
  }

  // Prepared values are the last arguments, in the order of the results of what computes them.
  absl::Status addPrepare(plan::ProgramOp prepare) {
    numInputs_ = source_.getNumArguments();
    while (numInputs_ > 0 && source_.getArgAttr(numInputs_ - 1, plan::kPreparedAttr))
      --numInputs_;
    if (!prepare)
      return numInputs_ == source_.getNumArguments()
                 ? absl::OkStatus()
                 : invalid(source_, "has prepared arguments, but nothing computes them");
    PlanReport report;
    auto arena = prepare.getBody().front().getOps<plan::ArenaOp>();
    report.arenaBytes = arena.empty() ? 0 : bytesOf(*arena.begin());
    WEFT_ASSIGN_OR_RETURN(runtime::Program program,
                          Builder(prepare, program_.target, report, nullptr).build(nullptr));
    if (program.outputs.size() != source_.getNumArguments() - numInputs_)
      return invalid(
          source_, "has another number of prepared arguments than what computes them has results");
    program_.prepare.push_back(std::move(program));
    for (unsigned i = 0; i < prepare.getNumArguments(); ++i) {
      auto from = dyn_cast_or_null<IntegerAttr>(prepare.getArgAttr(i, plan::kSourceAttr));
      if (!from || from.getInt() < 0 || from.getInt() >= numInputs_)
        return invalid(prepare, "has an argument without a plan.source");
      program_.prepare_inputs.push_back(buffer(source_.getArgument(from.getInt())));
    }
    return absl::OkStatus();
  }

  // Whether the buffer is the caller's, and smaller than planned at smaller sizes.
  bool isSized(Value value) const {
    int64_t offset;
    return sizedBuffers_.contains(plan::viewRoot(value, offset));
  }

  void addInputs() {
    for (unsigned i = 0; i < numInputs_; ++i) {
      auto type =
          cast<RankedTensorType>(cast<TypeAttr>(source_.getArgAttr(i, plan::kTypeAttr)).getValue());
      runtime::InputSpec spec;
      spec.name = nameOf(source_.getArgAttr(i, plan::kParameterAttr));
      if (spec.name.empty())
        spec.name = nameOf(source_.getArgAttr(i, plan::kNameAttr));
      spec.dtype = ir::dtypeOf(type.getElementType());
      spec.dims.assign(type.getShape().begin(), type.getShape().end());
      addSizes(type, {runtime::SizeTable::Place::kInputDim, int32_t(i)});
      if (ir::hasNamedDims(type))
        sizedBuffers_.insert(source_.getArgument(i));
      spec.bytes = bytesOf(source_.getArgument(i));
      spec.donatable = bool(source_.getArgAttr(i, plan::kDonatableAttr));
      spec.stable =
          source_.getArgAttr(i, plan::kStableAttr) || source_.getArgAttr(i, plan::kParameterAttr);
      program_.inputs.push_back(std::move(spec));
    }
  }

  // Where a dim of the type is a number of the program's, if it has a name.
  void addSize(RankedTensorType type, int64_t dim, runtime::SizeTable::Entry entry) {
    ir::Dim size = ir::dimsOf(type)[dim];
    if (size.isStatic())
      return;
    ir::SizeProduct product = ir::productOf(size.symbol.getValue());
    entry.dim = int32_t(dim);
    entry.largest = size.size;
    entry.value.coefficient = product.coefficient;
    for (StringRef name : product.symbols) {
      auto known = llvm::find(sizes_.names, name);
      entry.value.names.push_back(int32_t(known - sizes_.names.begin()));
      if (known == sizes_.names.end())
        sizes_.names.push_back(name.str());
    }
    sizes_.entries.push_back(std::move(entry));
  }

  void addSizes(RankedTensorType type, runtime::SizeTable::Entry entry) {
    for (int64_t dim = 0; dim < type.getRank(); ++dim)
      addSize(type, dim, entry);
  }

  // Of a launch that is the next instruction: what its count goes by, and what it is told.
  void addSizes(plan::KernelOp kernel, runtime::Launch &launch) {
    using Place = runtime::SizeTable::Place;
    auto sizes = kernel->getAttrOfType<TypeAttr>(kSizedAttr);
    if (!sizes)
      return;
    auto next = int32_t(program_.instructions.size());
    auto type = cast<RankedTensorType>(sizes.getValue());
    for (auto [i, largest] : llvm::enumerate(type.getShape())) {
      if (i > 0)
        launch.sizes.push_back(largest);
      addSize(type, int64_t(i),
              {i == 0 ? Place::kCount : Place::kLaunchSize, next, int32_t(i) - 1});
    }
  }

  int32_t location(Operation *op) {
    SmallVector<Place> places = placesOf(op->getLoc());
    return places.empty() ? -1 : location(places.front());
  }

  // Where there is more than one.
  std::vector<int32_t> lines(Operation *op) {
    std::vector<int32_t> numbers;
    SmallVector<Place> places = placesOf(op->getLoc());
    if (places.size() > 1)
      for (const Place &place : places)
        numbers.push_back(location(place));
    return numbers;
  }

  int32_t location(const Place &place) {
    auto [it, inserted] = locations_.try_emplace(place.text(), int32_t(program_.locations.size()));
    if (inserted) {
      program_.locations.push_back(place.line);
      if (!place.module.empty()) {
        program_.modules.resize(program_.locations.size());
        program_.modules.back() = place.module;
      }
    }
    return it->second;
  }

  int32_t symbol(StringRef name) {
    auto [it, inserted] = symbols_.try_emplace(name, int32_t(program_.symbols.size()));
    if (inserted)
      program_.symbols.push_back(name.str());
    return it->second;
  }

  // The row of a buffer; outputs get their index when the return is seen.
  int32_t buffer(Value value) {
    auto [it, inserted] = buffers_.try_emplace(value, int32_t(program_.buffers.size()));
    if (inserted)
      addBuffer(value, 0, bytesOf(value));
    return it->second;
  }

  // A new row, of some bytes of a buffer.
  int32_t addBuffer(Value value, int64_t begin, int64_t bytes) {
    auto row = int32_t(program_.buffers.size());
    int64_t offset;
    Value root = plan::viewRoot(value, offset);
    runtime::BufferEntry entry;
    entry.bytes = bytes;
    entry.offset = offset + begin;
    if (auto argument = dyn_cast<BlockArgument>(root)) {
      bool prepared = argument.getArgNumber() >= numInputs_;
      entry.kind = prepared ? runtime::BufferKind::kPrepared : runtime::BufferKind::kInput;
      entry.index =
          int32_t(prepared ? argument.getArgNumber() - numInputs_ : argument.getArgNumber());
    } else if (auto constant = root.getDefiningOp<plan::ConstantOp>()) {
      entry.kind = runtime::BufferKind::kConstant;
      entry.offset += constantOffset(constant);
    } else if (root.getDefiningOp<plan::OutputOp>()) {
      entry.kind = runtime::BufferKind::kOutput;
      outputRows_[root].push_back(row);
    }
    program_.buffers.push_back(entry);
    return row;
  }

  int64_t constantOffset(plan::ConstantOp constant) {
    auto [it, inserted] =
        constants_.try_emplace(constant.getValue(), int64_t(program_.constants.size()));
    if (inserted) {
      ir::HostTensor tensor = ir::HostTensor::from(constant.getValue());
      program_.constants.insert(program_.constants.end(), tensor.bytes.begin(), tensor.bytes.end());
      program_.constants.resize(
          size_t(llvm::alignTo(program_.constants.size(), runtime::kBufferAlignment)));
    }
    return it->second;
  }

  absl::Status add(plan::ArenaOp arena) {
    program_.arena_bytes = bytesOf(arena);
    return absl::OkStatus();
  }

  // What the kernel's indices must be within, but for what an earlier instruction has asked of the
  // same indices: kept inputs may be written before a launch that asks again. Indices that come
  // from a buffer are found through what leaves their values alone.
  void addChecks(plan::LaunchOp op, plan::KernelOp kernel, runtime::Launch &launch) {
    SmallVector<int32_t, 0> numbers = checks_.of(op, kernel);
    size_t next = 0;
    kernel.walk([&](Operation *op) {
      std::optional<ir::IndexBounds> bounds = ir::indexBounds(op);
      if (!bounds || !asked_.insert(numbers[next++]).second)
        return;
      runtime::IndexCheck check;
      check.op = bounds->user.str();
      check.lower = bounds->lower;
      check.upper = bounds->upper;
      check.ignores = bounds->ignored.has_value();
      check.ignored = bounds->ignored.value_or(0);
      check.location = location(op);
      check.dtype = ir::dtypeOf(ir::typeOf(bounds->indices).getElementType());
      Value source = bounds->indices;
      while (
          isa_and_present<ir::ReshapeOp, ir::BroadcastOp, ir::TransposeOp>(source.getDefiningOp()))
        source = source.getDefiningOp()->getOperand(0);
      auto argument = dyn_cast<BlockArgument>(source);
      if (argument && isa<ir::FusionOp>(argument.getOwner()->getParentOp()))
        check.operand = argument.getArgNumber();
      launch.checks.push_back(std::move(check));
    });
  }

  absl::Status add(plan::LaunchOp op) {
    auto kernel = kernels_.lookup<plan::KernelOp>(op.getKernel());
    if (!kernel || !kernel.getSymbol())
      return invalid(op, ("the kernel @" + op.getKernel() + " has not been compiled").str());
    if (kernel.getPartials() > 0 && !op.getPartials())
      return invalid(op, "has no buffer for partial results; run plan-launches");
    runtime::Launch launch;
    launch.kernel = symbol(*kernel.getSymbol());
    if (kernel.getFinish())
      launch.finish = symbol(*kernel.getFinish());
    for (Value value : op.getInputs())
      launch.operands.push_back(buffer(value));
    for (Value value : op.getOutputs())
      launch.operands.push_back(buffer(value));
    if (op.getPartials())
      launch.partials = buffer(op.getPartials());
    launch.count = kernel.getCount();
    launch.grain = kernel.getGrain();
    launch.serial = op.getSerial();
    launch.location = location(op);
    launch.lines = lines(op);
    if (program_.notes.size() <= size_t(launch.kernel))
      program_.notes.resize(size_t(launch.kernel) + 1);
    if (program_.notes[launch.kernel].types.empty())
      program_.notes[launch.kernel] = noteOf(kernel);
    addChecks(op, kernel, launch);
    addSizes(kernel, launch);
    program_.thread_scratch_bytes =
        std::max<int64_t>(program_.thread_scratch_bytes, kernel.getScratch());
    program_.instructions.emplace_back(std::move(launch));
    return absl::OkStatus();
  }

  absl::Status add(plan::LibraryCallOp op) {
    WEFT_ASSIGN_OR_RETURN(runtime::LibraryCall call, libraryCall(op));
    call.location = location(op);
    call.lines = lines(op);
    // Tensors come first among the op's operands.
    for (auto [i, ref] : llvm::enumerate(call.operands)) {
      ref.buffer = buffer(op->getOperand(i));
      auto type = cast<TypeAttr>(op.getTypes()[i]).getValue();
      addSizes(cast<RankedTensorType>(type), {runtime::SizeTable::Place::kOperandDim,
                                              int32_t(program_.instructions.size()), int32_t(i)});
    }
    if (op.getScratch())
      call.scratch = buffer(op.getScratch());
    program_.instructions.emplace_back(std::move(call));
    return absl::OkStatus();
  }

  // The body, once for each piece: its arguments are other rows in each run.
  absl::Status add(plan::PiecesOp op) {
    Block &body = op.getBody().front();
    for (int64_t run = 0; run < int64_t(op.getCount()); ++run) {
      for (BlockArgument argument : body.getArguments()) {
        unsigned i = argument.getArgNumber();
        Value operand = op->getOperand(i);
        int64_t begin = run * op.getSteps()[i];
        // What is whole in each run is one row.
        bool whole = begin == 0 && bytesOf(argument) == bytesOf(operand);
        buffers_[argument] = whole ? buffer(operand) : addBuffer(operand, begin, bytesOf(argument));
      }
      for (Operation &inner : body) {
        auto launch = dyn_cast<plan::LaunchOp>(inner);
        WEFT_RETURN_IF_ERROR(launch ? add(launch) : add(cast<plan::LibraryCallOp>(inner)));
      }
    }
    return absl::OkStatus();
  }

  absl::Status add(plan::CopyOp op) {
    if (bytesOf(op.getSource()) == 0)
      return absl::OkStatus();
    program_.instructions.emplace_back(runtime::Copy{buffer(op.getSource()), buffer(op.getTarget()),
                                                     bytesOf(op.getSource()), location(op)});
    return absl::OkStatus();
  }

  absl::Status add(plan::FillOp op) {
    if (bytesOf(op.getTarget()) == 0)
      return absl::OkStatus();
    program_.instructions.emplace_back(
        runtime::Fill{buffer(op.getTarget()), uint64_t(op.getPattern()), int32_t(op.getWidth()),
                      bytesOf(op.getTarget()), location(op)});
    return absl::OkStatus();
  }

  absl::Status add(plan::ReturnOp op) {
    return_ = op;
    return absl::OkStatus();
  }

  // Which buffer each output is: one that the caller binds, an input, or an earlier output.
  absl::Status bindOutputs() {
    DenseMap<Value, int32_t> firstOutput;
    std::vector<bool> written = writtenInputs();
    for (auto [i, value] : llvm::enumerate(return_.getValues())) {
      auto type = cast<RankedTensorType>(
          cast<TypeAttr>(source_.getResultAttr(i, plan::kTypeAttr)).getValue());
      runtime::OutputSpec spec;
      spec.name = nameOf(source_.getResultAttr(i, plan::kNameAttr));
      spec.dtype = ir::dtypeOf(type.getElementType());
      spec.dims.assign(type.getShape().begin(), type.getShape().end());
      addSizes(type, {runtime::SizeTable::Place::kOutputDim, int32_t(i)});
      spec.bytes = bytesOf(value);
      int64_t offset;
      Value root = plan::viewRoot(value, offset);
      if (ir::hasNamedDims(type))
        sizedBuffers_.insert(root);
      auto [it, inserted] = firstOutput.try_emplace(root, int32_t(i));
      auto argument = dyn_cast<BlockArgument>(root);
      if (argument && !written[argument.getArgNumber()])
        spec.alias_input = int32_t(argument.getArgNumber());
      else if (!inserted)
        spec.alias_output = it->second;
      else if (argument)
        spec.donated_input = int32_t(argument.getArgNumber());
      else
        for (int32_t row : outputRows_[root])
          program_.buffers[row].index = int32_t(i);
      program_.outputs.push_back(std::move(spec));
    }
    for (runtime::BufferEntry &entry : program_.buffers)
      if (entry.kind == runtime::BufferKind::kOutput && entry.index < 0)
        return invalid(source_, "writes a plan.output that it does not return");
    return absl::OkStatus();
  }

  std::vector<bool> writtenInputs() {
    std::vector<bool> written(source_.getNumArguments());
    for (auto op : source_.getBody().front().getOps<plan::InstructionOp>()) {
      MutableOperandRange writes = op.getWritesMutable();
      for (OpOperand &operand : writes) {
        int64_t offset;
        if (auto argument = dyn_cast<BlockArgument>(plan::viewRoot(operand.get(), offset)))
          written[argument.getArgNumber()] = true;
      }
    }
    return written;
  }

  plan::ProgramOp source_;
  unsigned numInputs_ = 0; // the arguments that are not prepared
  plan::ReturnOp return_;
  SymbolTable kernels_;
  runtime::Program program_;
  runtime::SizeTable *table_;
  runtime::SizeTable sizes_;
  DenseSet<Value> sizedBuffers_; // of inputs and outputs, without views
  llvm::StringMap<int32_t> symbols_, locations_;
  DenseMap<Value, int32_t> buffers_;
  DenseMap<Attribute, int64_t> constants_;
  DenseMap<Value, SmallVector<int32_t, 2>> outputRows_;
  IndexChecks checks_;
  DenseSet<int32_t> asked_; // numbers of checks
};

} // namespace

absl::StatusOr<runtime::LibraryCall> libraryCall(plan::LibraryCallOp op) {
  runtime::LibraryCall call;
  call.entry = op.getCallee().str();
  call.inputs = int32_t(op.getInputs().size());
  auto strides = op->getAttrOfType<ArrayAttr>(plan::kStridesAttr);
  for (auto [i, attribute] : llvm::enumerate(op.getTypes())) {
    auto type = cast<RankedTensorType>(cast<TypeAttr>(attribute).getValue());
    runtime::TensorRef ref;
    ref.dtype = ir::dtypeOf(type.getElementType());
    ref.dims.assign(type.getShape().begin(), type.getShape().end());
    ref.strides.resize(ref.dims.size());
    int64_t stride = 1;
    for (size_t dim = ref.dims.size(); dim-- > 0; stride *= ref.dims[dim])
      ref.strides[dim] = stride;
    auto given = strides ? cast<DenseI64ArrayAttr>(strides[i]) : DenseI64ArrayAttr();
    if (given && !given.empty())
      ref.strides.assign(given.asArrayRef().begin(), given.asArrayRef().end());
    call.operands.push_back(std::move(ref));
  }
  for (NamedAttribute entry : op.getConfig()) {
    std::optional<runtime::ConfigValue> value = configValue(entry.getValue());
    if (!value)
      return invalid(op,
                     ("config entry '" + entry.getName().getValue() +
                      "' is neither an integer, a float, a string, a bool nor a list of integers")
                         .str());
    call.config.emplace_back(entry.getName().str(), *std::move(value));
  }
  std::sort(call.config.begin(), call.config.end(),
            [](const auto &a, const auto &b) { return a.first < b.first; });
  return call;
}

absl::StatusOr<runtime::Program> buildProgram(plan::ProgramOp program, StringRef target,
                                              const PlanReport &report, plan::ProgramOp prepare,
                                              runtime::SizeTable *sizes) {
  return Builder(program, target, report, sizes).build(prepare);
}

absl::StatusOr<runtime::Program>
bindConstants(const runtime::Program &program,
              ArrayRef<std::pair<int32_t, ArrayRef<char>>> inputs) {
  runtime::Program bound = program;
  constexpr int32_t kUnchanged = -1;
  std::vector<int64_t> constant(program.inputs.size(),
                                kUnchanged); // the offset of each bound input
  for (auto [index, bytes] : inputs) {
    if (index < 0 || size_t(index) >= program.inputs.size())
      return absl::InvalidArgumentError("there is no input " + std::to_string(index));
    const runtime::InputSpec &spec = program.inputs[index];
    if (int64_t(bytes.size()) != spec.bytes)
      return absl::InvalidArgumentError("input '" + spec.name + "' takes " +
                                        std::to_string(spec.bytes) + " bytes, but its value has " +
                                        std::to_string(bytes.size()));
    constant[index] = int64_t(bound.constants.size());
    const std::byte *data = reinterpret_cast<const std::byte *>(bytes.data());
    bound.constants.insert(bound.constants.end(), data, data + bytes.size());
    bound.constants.resize(
        size_t(llvm::alignTo(bound.constants.size(), runtime::kBufferAlignment)));
  }

  std::vector<int32_t> moved(program.inputs.size());
  bound.inputs.clear();
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    moved[i] = int32_t(bound.inputs.size());
    if (constant[i] == kUnchanged)
      bound.inputs.push_back(program.inputs[i]);
  }
  for (runtime::BufferEntry &entry : bound.buffers) {
    if (entry.kind != runtime::BufferKind::kInput)
      continue;
    if (constant[entry.index] == kUnchanged) {
      entry.index = moved[entry.index];
    } else {
      entry.kind = runtime::BufferKind::kConstant;
      entry.offset += constant[entry.index];
      entry.index = -1;
    }
  }
  for (size_t o = 0; o < bound.outputs.size(); ++o) {
    runtime::OutputSpec &output = bound.outputs[o];
    if (output.donated_input >= 0) {
      if (constant[output.donated_input] != kUnchanged)
        return absl::InvalidArgumentError("input '" + program.inputs[output.donated_input].name +
                                          "' is written by the program and cannot be a constant");
      output.donated_input = moved[output.donated_input];
    }
    if (output.alias_input < 0)
      continue;
    int32_t input = output.alias_input;
    if (constant[input] == kUnchanged) {
      output.alias_input = moved[input];
      continue;
    }
    // What was the caller's buffer has to be copied to one of its own.
    output.alias_input = -1;
    if (output.bytes == 0)
      continue;
    bound.buffers.push_back({runtime::BufferKind::kConstant, -1, constant[input], output.bytes});
    bound.buffers.push_back({runtime::BufferKind::kOutput, int32_t(o), 0, output.bytes});
    int32_t target = int32_t(bound.buffers.size() - 1);
    bound.instructions.emplace_back(runtime::Copy{target - 1, target, output.bytes, -1});
  }
  WEFT_RETURN_IF_ERROR(runtime::validate(bound));
  return bound;
}

} // namespace weft::compiler
