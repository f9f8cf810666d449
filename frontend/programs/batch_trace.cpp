#include "frontend/programs/batch_trace.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compiler/link/SizeRange.h"
#include "dialects/weft/ir/DiagnosticCollector.h"
#include "dialects/weft/ir/IndexBounds.h"
#include "dialects/weft/ir/SizeNames.h"
#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/reference/HostTensor.h"
#include "frontend/compile/symbolic_module.h"
#include "frontend/programs/batch_of_one.h"
#include "frontend/recorder/programs/structure.h"
#include "frontend/recorder/requests/requests.h"
#include "frontend/recorder/requests/starting_values.h"
#include "frontend/recorder/runs/invocation.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace weft::recorder {
namespace {

// What the size is called in the program's module.
constexpr char kBatch[] = "batch";

constexpr char kAnotherWay[] = " depends on the size in another way than as a multiple of it";
// The line is of the call; which number of it this is, most users have not written.
constexpr char kOrOneOver[] =
    ", or 1 over one; so does 1 / (size - 1), of an unbiased variance over the batch: batch_norm "
    "in training (eval() makes it none), var and std unless their correction is 0";

constexpr char kFromTwoOn[] = " (a range from 2 on leaves 1 out)";

TypeRef at_size(const TypeInfo &type, int64_t size) {
  Shape dims = type.dims;
  dims[0] = size;
  return type_info(type.dtype, dims, type.device);
}

// Ops and how they are joined. What memory a program may take depends on bytes, hence on sizes.
ProgramKey structure_of(const Recording &recording) {
  ProgramKey key = structure_key(recording.slice).key;
  for (ProgramKey::Leaf &leaf : key.leaves)
    leaf = {.type = leaf.type};
  return key;
}

// The whole number that this is, or nearly; 0 for none.
int64_t factor_of(double number) {
  constexpr double kMost = 1LL << 40;
  return std::abs(number) < kMost ? std::llround(number) : 0;
}

// "float32 [8, 3] to float32 [3]"
std::string types_of(const Node &node) {
  auto list = [](llvm::ArrayRef<const TypeInfo *> types) {
    std::string text;
    for (const TypeInfo *type : types)
      text += (text.empty() ? "" : ", ") + describe(*type);
    return text;
  };
  return list(node.signature->operands) + " to " + list(node.signature->results);
}

// What the bits are in this dtype; nothing for one that no formula is looked for in.
std::optional<double> number_of(DType dtype, int64_t bits) {
  if (dtype != DType::kFloat32 && dtype != DType::kFloat64 && dtype != DType::kInt32 &&
      dtype != DType::kInt64)
    return std::nullopt;
  ir::HostTensor host(dtype, {});
  std::memcpy(host.bytes.data(), &bits, host.bytes.size());
  return host.getDouble(0);
}

} // namespace

void BatchTrace::refuse(const std::string &why) const {
  throw Error(ErrorKind::kCompile, "trace: the batch cannot vary: " + why, location_);
}

BatchTrace::BatchTrace(const ErasedFunction &function, std::vector<ArgumentType> types,
                       const BatchRange &batch, Location location)
    : function_(function), types_(std::move(types)), location_(location), varies_(types_.size()),
      low_(batch.min), high_(batch.max) {
  auto invalid = [&](const std::string &what) {
    throw Error(ErrorKind::kValue, "trace: " + what, location_);
  };
  if (low_ < 1 || low_ >= high_)
    invalid("a batch from " + std::to_string(low_) + " to " + std::to_string(high_) +
            " is no range; min must be at least 1, and max larger");
  for (int64_t input : batch.inputs) {
    if (input < 0 || static_cast<size_t>(input) >= types_.size())
      invalid("BatchRange::inputs names input " + std::to_string(input) + "; the function takes " +
              std::to_string(types_.size()) + " tensors");
    if (types_[static_cast<size_t>(input)].type->dims.empty())
      invalid("input " + std::to_string(input) + " has no dim that could be the batch");
    varies_[static_cast<size_t>(input)] = true;
  }
  if (batch.inputs.empty())
    for (size_t i = 0; i < types_.size(); ++i)
      varies_[i] = !types_[i].type->dims.empty();
  if (std::find(varies_.begin(), varies_.end(), true) == varies_.end())
    invalid("no input has a dim that could be the batch");
  // Sizes that follow each other share no factor: whatever is a multiple of both is one of the
  // size.
  other_ = high_ > 2 ? high_ - 1 : high_ + 1;
  const std::vector<int64_t> sizes = {other_, std::max<int64_t>(low_, 2)};
  std::vector<Recording> others; // at these
  std::optional<Recording> one;
  // A number in the source is a constant of the first recording, and given to those after the first
  // one where it differs: from then on it is given, also when all are recorded again.
  auto same = [&] {
    UnderLock lock;
    ProgramKey key = structure_of(*recording_);
    return std::ranges::all_of(others,
                               [&](const Recording &other) { return structure_of(other) == key; });
  };
  for (int attempt = 0; attempt == 0 || (attempt == 1 && !same()); ++attempt) {
    others.clear();
    for (int64_t size : sizes)
      others.push_back(record_at(size));
    one.reset();
    if (low_ == 1)
      one.emplace(record_at(1));
    recording_.emplace(record_at(high_));
  }
  UnderLock lock;
  for (size_t i = 0; i < sizes.size(); ++i)
    expect_same_ops(others[i], sizes[i]);
  positions_ = int_positions(recording_->slice);
  generalize_sizes(others[0]);
  compare_leaves(others[0]);
  for (size_t i = 1; i < sizes.size(); ++i)
    check_formulas(others[i], sizes[i]);
  if (one)
    check_one(*one);
}

void BatchTrace::refuse_other_ops(const Recording &other, int64_t size, size_t our_op,
                                  size_t their_op) const {
  llvm::ArrayRef<Node *> ours = recording_->slice.nodes, theirs = other.slice.nodes;
  const Node *our = our_op < ours.size() ? ours[our_op] : nullptr,
             *their = their_op < theirs.size() ? theirs[their_op] : nullptr;
  if (!our && !their)
    refuse("the function's ops read or give other tensors at a size of " + std::to_string(high_) +
           " than at " + std::to_string(size));
  // One op of one line differs in its types, or in its attributes.
  bool is_one = our && their && describe(our) == describe(their);
  auto what = [&](const Node *node) {
    return !node ? "no more" : is_one ? types_of(*node) : describe(node);
  };
  refuse("the function records " + (is_one ? describe(our) + ", " : "") + what(our) +
         " at a size of " + std::to_string(high_) + ", and " + what(their) + " at " +
         std::to_string(size) + "; it must record the same ops at every size" +
         (size == 1 ? kFromTwoOn : ""));
}

void BatchTrace::expect_same_ops(const Recording &other, int64_t size) const {
  if (structure_of(*recording_) != structure_of(other)) {
    llvm::ArrayRef<Node *> ours = recording_->slice.nodes, theirs = other.slice.nodes;
    size_t i = 0;
    while (i < std::min(ours.size(), theirs.size()) &&
           ours[i]->signature->text->structure == theirs[i]->signature->text->structure)
      ++i;
    refuse_other_ops(other, size, i, i);
  }
  expect_same_outputs(other, size);
}

void BatchTrace::expect_same_outputs(const Recording &other, int64_t size) const {
  if (recording_->outputs.size() != other.outputs.size())
    refuse("the function gives " + std::to_string(recording_->outputs.size()) +
           " tensors at a size of " + std::to_string(high_) + ", and " +
           std::to_string(other.outputs.size()) + " at " + std::to_string(size));
  for (size_t i = 0; i < other.outputs.size(); ++i)
    if (!recording_->outputs[i] != !other.outputs[i])
      refuse("result " + std::to_string(i) + " of the function is undefined at a size of " +
             std::to_string(other.outputs[i] ? high_ : size) + ", and a tensor at " +
             std::to_string(other.outputs[i] ? size : high_));
}

// By the recording's positions.
std::vector<int64_t> BatchTrace::ints_at(int64_t size) const {
  const Slice &slice = recording_->slice;
  std::vector<int64_t> ints = structure_key(slice).ints;
  for (size_t p = 0; p < ints.size() && any_; ++p) {
    int32_t c = general_.classes[p];
    auto sizes = static_cast<int32_t>(general_.sizes.size());
    if (c >= sizes &&
        general_.scalars[static_cast<size_t>(c - sizes)].kind != IntPosition::Kind::kSize) {
      const Node *node = slice.nodes[positions_[p].op];
      DType dtype = positions_[p].kind == IntPosition::Kind::kConstant
                        ? node->signature->results[0]->dtype
                        : DType::kInt64;
      ints[p] = bits_at(scalars_[static_cast<size_t>(c - sizes)], dtype, size);
    } else if (c >= 0 && c < sizes) {
      const Generalization::Size &named = general_.sizes[static_cast<size_t>(c)];
      ints[p] = named.coefficient;
      for (size_t i = 0; i < std::max<size_t>(named.factors.size(), 1); ++i)
        ints[p] *= size;
    }
  }
  return ints;
}

int64_t BatchTrace::leaf_at(size_t leaf, int64_t size) const {
  const Value *value = recording_->slice.leaves[leaf];
  auto formula =
      std::ranges::find_if(leaves_, [&](const auto &each) { return each.first == leaf; });
  return formula == leaves_.end() ? static_cast<int64_t>(value->bits)
                                  : bits_at(formula->second, value->type->dtype, size);
}

// A batch of one may lack ops that do nothing then.
void BatchTrace::check_one(const Recording &one) {
  expect_same_outputs(one, 1);
  NumbersAtOne numbers{.ints = ints_at(1), .varying = {}, .inputs = varies_, .bits = {}};
  for (size_t p = 0; p < positions_.size(); ++p)
    numbers.varying.push_back(any_ && general_.classes[p] != Generalization::kConstant &&
                              positions_[p].kind == IntPosition::Kind::kSize);
  numbers.bits = [&](size_t leaf) {
    return leaf_at(leaf, 1);
  };
  BatchOfOne found = compare_batch_of_one(*recording_, high_, one, numbers, location_);
  if (found.apart)
    refuse_other_ops(one, 1, found.apart->first, found.apart->second);
  if (!found.difference.empty())
    refuse(found.difference + kFromTwoOn);
  sums_ = std::move(found.sums);
}

// What was found of two sizes holds at this one, too.
void BatchTrace::check_formulas(const Recording &other, int64_t size) const {
  const Slice &slice = recording_->slice;
  std::vector<int64_t> ints = structure_key(other.slice).ints, expected = ints_at(size);
  auto unlike = [&](const std::string &what) {
    refuse(what + " follows the size from " + std::to_string(other_) + " to " +
           std::to_string(high_) + ", but not down to " + std::to_string(size));
  };
  for (size_t p = 0; p < ints.size() && any_; ++p)
    if (ints[p] != expected[p])
      unlike(describe(slice, positions_[p]));
  for (size_t i = 0; i < slice.leaves.size(); ++i) {
    expect_same_source(other, size, i);
    if (slice.leaves[i]->is_scalar && !source_of(*recording_, slice.leaves[i]) &&
        static_cast<int64_t>(other.slice.leaves[i]->bits) != leaf_at(i, size))
      unlike("a number that " + use_of(slice.leaves[i]) + " takes");
  }
}

void BatchTrace::expect_same_source(const Recording &other, int64_t size, size_t leaf) const {
  Value *ours = recording_->slice.leaves[leaf];
  if (!have_one_source(*recording_, ours, other, other.slice.leaves[leaf]))
    refuse(use_of(ours) + " reads another tensor at a size of " + std::to_string(size) +
           " than at " + std::to_string(high_));
}

int64_t BatchTrace::bits_at(const Formula &formula, DType dtype, int64_t size) const {
  Scalar number(formula.factor * size);
  if (formula.kind == Formula::Kind::kReciprocal)
    number = Scalar(1 / number.as_double());
  else if (formula.kind != Formula::Kind::kMultiple)
    number = Scalar(random_blocks(number.i, formula.kind == Formula::Kind::kNormalBlocks));
  return static_cast<int64_t>(scalar_bits(number, dtype));
}

Recording BatchTrace::record_at(int64_t size) {
  std::vector<ArgumentType> types = types_;
  {
    UnderLock lock;
    for (size_t i = 0; i < types.size(); ++i)
      if (varies_[i])
        types[i].type = at_size(*types[i].type, size);
  }
  try {
    return record("trace", function_, types, location_, /*many_sizes=*/true);
  } catch (const Error &error) {
    // Where the user's modules called is known no more.
    if (std::string_view(error.what()).find(" (called from ") != std::string_view::npos)
      throw;
    // Shapes that the caller has not written.
    throw Error(error.kind(),
                error.message() + " (weft::trace tries the function with a batch of " +
                    std::to_string(size) + ")",
                error.file(), error.line());
  }
}

std::string BatchTrace::use_of(const Value *leaf) const {
  for (const Node *node : recording_->slice.nodes)
    if (std::find(node->operands.begin(), node->operands.end(), leaf) != node->operands.end())
      return describe(node);
  return "the function";
}

void BatchTrace::compare_leaves(const Recording &other) {
  llvm::ArrayRef<Value *> ours = recording_->slice.leaves, theirs = other.slice.leaves;
  for (size_t i = 0; i < ours.size(); ++i) {
    expect_same_source(other, other_, i);
    std::optional<size_t> source = source_of(*recording_, ours[i]);
    if (source && *source < types_.size())
      continue;
    if (ours[i]->type->dims != theirs[i]->type->dims)
      refuse(use_of(ours[i]) + " reads a tensor that is no input and has the batch's size, " +
             describe(*ours[i]->type) + "; pass it to the function");
    if (source)
      continue;
    if (!ours[i]->is_scalar) {
      std::vector<char> our_room, their_room;
      const void *a = host_bytes(ours[i], location_, our_room),
                 *b = host_bytes(theirs[i], location_, their_room);
      if (ours[i]->type->bytes > 0 &&
          std::memcmp(a, b, static_cast<size_t>(ours[i]->type->bytes)) != 0)
        refuse(use_of(ours[i]) + " reads a tensor that the function makes, whose elements differ "
                                 "between two sizes; pass it to the function");
      continue;
    }
    if (ours[i]->bits == theirs[i]->bits)
      continue;
    auto formula = fit(ours[i]->type->dtype, static_cast<int64_t>(ours[i]->bits),
                       static_cast<int64_t>(theirs[i]->bits));
    if (!formula)
      refuse("a number that " + use_of(ours[i]) + " takes" + kAnotherWay + kOrOneOver);
    leaves_.emplace_back(i, *formula);
  }
}

void BatchTrace::generalize_sizes(const Recording &other) {
  const Slice &slice = recording_->slice;
  std::vector<int64_t> ours = structure_key(slice).ints, theirs = structure_key(other.slice).ints;
  std::string why;
  any_ = generalize({&theirs, &ours}, positions_, computes_with_sizes(slice), general_, why);
  if (!any_)
    return;
  for (Generalization::Size &size : general_.sizes) {
    int64_t mine = ours[size.position];
    if (size.factors.empty() && mine != high_)
      refuse(describe(slice, positions_[size.position]) + " is " + std::to_string(mine) +
             " where the batch is " + std::to_string(high_) + ", and " +
             std::to_string(theirs[size.position]) + " where it is " + std::to_string(other_) +
             ": no multiple of it");
    size.name.clear();
    for (size_t i = 0; i < std::max<size_t>(size.factors.size(), 1); ++i)
      size.name += (i > 0 ? "." : "") + std::string(kBatch);
    if (size.coefficient != 1)
      size.name += "." + std::to_string(size.coefficient);
    size.low = 2;
    size.high = mine;
  }
  // Two sizes may take as many blocks of random numbers as each other.
  for (uint32_t p = 0; p < positions_.size(); ++p)
    if (positions_[p].kind == IntPosition::Kind::kAttribute &&
        general_.classes[p] == Generalization::kConstant &&
        fit_amount(other, positions_[p], ours[p], theirs[p])) {
      general_.classes[p] = static_cast<int32_t>(general_.sizes.size() + general_.scalars.size());
      general_.scalars.push_back({IntPosition::Kind::kAttribute, p});
    }
  for (const Generalization::Scalar &scalar : general_.scalars) {
    const IntPosition &position = positions_[scalar.position];
    int64_t a = ours[scalar.position], b = theirs[scalar.position];
    std::optional<Formula> formula = Formula(); // a size is a multiple of a power of the batch
    if (scalar.kind == IntPosition::Kind::kConstant)
      formula = fit(slice.nodes[position.op]->signature->results[0]->dtype, a, b);
    else if (scalar.kind == IntPosition::Kind::kAttribute)
      if (formula = fit_amount(other, position, a, b); !formula)
        formula = fit(DType::kInt64, a, b);
    if (!formula)
      refuse(describe(slice, position) + kAnotherWay +
             (scalar.kind == IntPosition::Kind::kConstant ? kOrOneOver : ""));
    scalars_.push_back(*formula);
  }
}

std::optional<BatchTrace::Formula> BatchTrace::fit(DType dtype, int64_t bits,
                                                   int64_t other_bits) const {
  std::optional<double> a = number_of(dtype, bits);
  if (!a || !std::isfinite(*a) || *a == 0)
    return std::nullopt;
  auto fits = [&](const Formula &formula) {
    return formula.factor != 0 && bits_at(formula, dtype, high_) == bits &&
           bits_at(formula, dtype, other_) == other_bits;
  };
  Formula multiple{Formula::Kind::kMultiple, factor_of(*a / static_cast<double>(high_))},
      reciprocal{Formula::Kind::kReciprocal, factor_of(1 / (*a * static_cast<double>(high_)))};
  if (fits(multiple))
    return multiple;
  if (is_floating(dtype) && fits(reciprocal))
    return reciprocal;
  return std::nullopt;
}

// By how much a generator moves on: as many blocks as the op beside takes that reads its state.
std::optional<BatchTrace::Formula> BatchTrace::fit_amount(const Recording &other,
                                                          const IntPosition &position,
                                                          int64_t amount,
                                                          int64_t other_amount) const {
  llvm::ArrayRef<Node *> ours = recording_->slice.nodes;
  const Node *advance = ours[position.op];
  if (!is<ir::RandomAdvanceOp>(advance))
    return std::nullopt;
  for (size_t i = 0; i < ours.size(); ++i) {
    const Node *node = ours[i];
    if (node == advance || node->signature->results.empty() ||
        std::find(node->operands.begin(), node->operands.end(), advance->operands[0]) ==
            node->operands.end())
      continue;
    int64_t elements = node->signature->results[0]->elements,
            others = other.slice.nodes[i]->signature->results[0]->elements;
    if (elements == others || elements % high_ != 0 || elements / high_ * other_ != others)
      continue;
    for (bool normal : {false, true})
      if (random_blocks(elements, normal) == amount &&
          random_blocks(others, normal) == other_amount)
        return Formula{normal ? Formula::Kind::kNormalBlocks : Formula::Kind::kBlocks,
                       elements / high_};
  }
  return std::nullopt;
}

mlir::Type BatchTrace::named(mlir::Type type) const {
  auto tensor = mlir::cast<mlir::RankedTensorType>(type);
  ir::Dims dims = ir::dimsOf(tensor);
  dims[0] = ir::namedDim(mlir::StringAttr::get(type.getContext(), kBatch), high_);
  return ir::tensorOf(dims, tensor.getElementType());
}

void BatchTrace::name_sizes(mlir::ModuleOp module) const {
  auto main = module.lookupSymbol<mlir::func::FuncOp>("main");
  mlir::Block &body = main.getBody().front();
  const unsigned leaves = body.getNumArguments();
  // Why sizes cannot vary is a sentence that names an op, not its text.
  module.getContext()->printOpOnDiagnostic(false);
  ir::DiagnosticCollector diagnostics(module.getContext());
  llvm::SmallVector<mlir::Operation *> ops;
  for (mlir::Operation &op : body.without_terminator())
    ops.push_back(&op);
  for (size_t sum : sums_)
    ops[sum]->setAttr(compiler::kBeyondOneAttr, mlir::UnitAttr::get(module.getContext()));
  if (any_)
    if (absl::Status status = make_symbolic(module, general_, positions_, /*writes_rows=*/true);
        !status.ok())
      refuse(diagnostics.added(std::string(status.message())));
  // Which rows of the batch are taken was right at the sizes that were recorded, and is checked.
  main.walk([](ir::IndexSelectOp select) {
    auto type = mlir::cast<mlir::RankedTensorType>(select.getInput().getType());
    if (!ir::dimsOf(type)[select.getDim()].isStatic())
      select->removeAttr(ir::kInRangeAttr);
  });
  mlir::OpBuilder builder = mlir::OpBuilder::atBlockBegin(&body);
  mlir::StringAttr name = builder.getStringAttr(kBatch);
  mlir::Location unknown = builder.getUnknownLoc();
  module->setAttr(compiler::kSizesAttr, builder.getDictionaryAttr(builder.getNamedAttr(
                                            name, builder.getDenseI64ArrayAttr({low_, high_}))));
  ir::Val size;
  auto build = [&](const Formula &formula, mlir::Type element) {
    if (!size) {
      auto type = mlir::RankedTensorType::get({}, builder.getI64Type());
      auto constant = ir::ConstantOp::create(
          builder, unknown, mlir::DenseElementsAttr::get(type, builder.getI64IntegerAttr(high_)));
      constant->setAttr(compiler::kSizeAttr, name);
      size = ir::Val(builder, unknown, constant);
    }
    ir::Val product = formula.factor == 1 ? size : size * static_cast<double>(formula.factor);
    mlir::Type f64 = builder.getF64Type();
    switch (formula.kind) {
    case Formula::Kind::kMultiple:
      break;
    case Formula::Kind::kReciprocal:
      product = 1.0 / ir::cast(product, f64);
      break;
    case Formula::Kind::kBlocks:
    case Formula::Kind::kNormalBlocks: // random_blocks
      product =
          ir::cast(ir::floor(ir::cast(product + 63.0, f64) * (1.0 / 64)), builder.getI64Type()) *
          (formula.kind == Formula::Kind::kBlocks ? 16.0 : 32.0);
      break;
    }
    return ir::cast(product, element);
  };
  auto element_of = [&](unsigned argument) {
    return mlir::cast<mlir::RankedTensorType>(body.getArgument(argument).getType())
        .getElementType();
  };
  for (size_t i = 0; i < scalars_.size(); ++i) {
    unsigned argument = leaves + static_cast<unsigned>(i);
    if (body.getArgument(argument).use_empty())
      continue;
    ir::Val value = build(scalars_[i], element_of(argument));
    if (general_.scalars[i].kind == IntPosition::Kind::kSize) {
      const Generalization::Size &each =
          general_.sizes[static_cast<size_t>(general_.classes[general_.scalars[i].position])];
      for (size_t factor = 1; factor < each.factors.size(); ++factor)
        value = value * size;
      if (each.coefficient != 1)
        value = value * static_cast<double>(each.coefficient);
    }
    body.getArgument(argument).replaceAllUsesWith(value);
  }
  for (const auto &[leaf, formula] : leaves_)
    body.getArgument(static_cast<unsigned>(leaf))
        .replaceAllUsesWith(build(formula, element_of(static_cast<unsigned>(leaf))));
  body.eraseArguments(leaves, body.getNumArguments() - leaves);
  main.removeArgAttrsAttr();
  main.setFunctionType(
      builder.getFunctionType(body.getArgumentTypes(), body.getTerminator()->getOperandTypes()));
}

void BatchTrace::check_smallest(mlir::ModuleOp module) const {
  mlir::OwningOpRef<mlir::ModuleOp> copy = module.clone();
  if (absl::Status status = compiler::narrow(*copy, low_, low_); !status.ok())
    refuse(std::string(status.message()));
}

} // namespace weft::recorder
