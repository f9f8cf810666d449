// weft::Program as text and as bytecode: printing, saving, loading.
#include <iostream>

#include <cstring>

#include "compiler/link/SizeRange.h"
#include "dialects/weft/ir/Attributes.h"
#include "dialects/weft/ir/BytecodeFile.h"
#include "dialects/weft/ir/DiagnosticCollector.h"
#include "dialects/weft/ir/Extensions.h"
#include "dialects/weft/ir/SignatureAttributes.h"
#include "dialects/weft/ir/SizeNames.h"
#include "dialects/weft/ir/Weft.h"
#include "dialects/weft/reference/HostTensor.h"
#include "dialects/weft/state/StateAttributes.h"
#include "frontend/programs/program_impl.h"
#include "frontend/recorder/record/state.h"
#include "frontend/tensor/impl.h"
#include "mlir/IR/BuiltinDialect.h"
#include "mlir/Parser/Parser.h"
#include "runtime/io/files.h"
#include "runtime/memory/buffer.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/raw_ostream.h"

namespace weft {
namespace recorder {

std::shared_ptr<ProgramImpl> make_program() {
  auto program = std::make_shared<ProgramImpl>();
  program->bound.device = default_device();
  mlir::DialectRegistry registry;
  registry.insert<ir::WeftDialect, mlir::func::FuncDialect>();
  program->context =
      std::make_unique<mlir::MLIRContext>(registry, mlir::MLIRContext::Threading::DISABLED);
  program->context->loadAllAvailableDialects();
  return program;
}

namespace {

// Errors of a module that is no program: "NAME: what is wrong".
class Reader {
public:
  Reader(ProgramImpl &program, const std::string &name, Location location,
         const ProgramImpl *keeper)
      : program_(program), name_(name), location_(location), keeper_(keeper) {
    main_ = program.module->lookupSymbol<mlir::func::FuncOp>("main");
    if (!main_ || !llvm::hasSingleElement(main_.getBody()))
      refuse("there is no function @main with one block");
  }

  void read() {
    program_.inputs.clear();
    program_.outputs.clear();
    program_.state.clear();
    program_.batch = BatchRange();
    uint8_t device = program_.bound.device;
    program_.bound = BoundProgram();
    program_.bound.device = device;
    program_.compiled_for.reset();
    auto range = compiler::sizeRange(*program_.module);
    if (!range.ok())
      refuse(std::string(range.status().message()));
    range_ = *range;
    main_.walk([&](mlir::Operation *op) {
      program_.bound.checks = program_.bound.checks || may_end_run(op);
    });
    for (unsigned i = 0; i < main_.getNumArguments(); ++i)
      read_argument(i);
    for (unsigned i = 0; i < main_.getNumResults(); ++i)
      read_result(i);
    program_.bound.outputs = static_cast<uint32_t>(program_.outputs.size());
    if (range_ && program_.batch.inputs.empty())
      refuse("weft.sizes names '" + range_->name + "', which is the leading dim of no input");
  }

private:
  [[noreturn]] void refuse(const std::string &what) {
    throw Error(ErrorKind::kFile, name_ + ": " + what, location_);
  }

  const TypeInfo *type_of(mlir::Type type, const std::string &which) {
    auto tensor = mlir::dyn_cast<mlir::RankedTensorType>(type);
    for (const DTypeInfo &each : kDTypes)
      if (tensor && tensor.hasStaticShape() &&
          ir::elementType(each.dtype, program_.context.get()) == tensor.getElementType())
        return type_info(each.dtype, Shape(tensor.getShape().begin(), tensor.getShape().end()),
                         program_.bound.device);
    std::string text;
    llvm::raw_string_ostream(text) << type;
    refuse(which + " of @main is " + text +
           "; it must be a tensor of static shape and of an element type of Weft's");
  }

  void read_argument(unsigned i) {
    std::string which = "argument " + std::to_string(i);
    const TypeInfo *type = type_of(main_.getArgumentTypes()[i], which);
    Source &source = program_.bound.sources.emplace_back();
    auto state = main_.getArgAttrOfType<mlir::StringAttr>(i, ir::kStateAttr);
    if (!state) {
      if (!program_.state.empty())
        refuse(which + " of @main is an input behind what the program keeps (weft.state)");
      source.kind = Source::Kind::kArgument;
      source.argument = i;
      program_.inputs.push_back(type);
      if (!ir::hasNamedDims(main_.getArgumentTypes()[i]))
        return;
      auto tensor = mlir::cast<mlir::RankedTensorType>(main_.getArgumentTypes()[i]);
      ir::Dims dims = ir::dimsOf(tensor);
      for (size_t d = 0; d < dims.size(); ++d)
        if (!dims[d].isStatic() && (!range_ || d > 0 || dims[d].symbol.getValue() != range_->name ||
                                    dims[d].size != range_->high))
          refuse(which + " of @main is " + ir::spell(tensor) +
                 "; a size that varies is a leading dim, and the one of weft.sizes, whose largest "
                 "number the type has");
      program_.batch.min = range_->low;
      program_.batch.max = range_->high;
      program_.batch.inputs.push_back(i);
      return;
    }
    if (ir::hasNamedDims(main_.getArgumentTypes()[i]))
      refuse(which + " of @main, '" + state.str() + "', is kept and has a size that varies");
    if (!names_.insert(state.getValue()).second)
      refuse("the program keeps two tensors that are called '" + state.str() + "'");
    source.kind = Source::Kind::kStorage;
    source.storage = keeper_ ? keeper_->state[program_.state.size()].second
                             : first_value(i, type, which + " of @main, '" + state.str() + "',");
    program_.state.emplace_back(state.str(), source.storage);
  }

  Tensor first_value(unsigned i, const TypeInfo *type, const std::string &which) {
    auto initial = main_.getArgAttrOfType<mlir::ElementsAttr>(i, ir::kInitialAttr);
    if (!initial || initial.getType() != main_.getArgumentTypes()[i])
      refuse(which + " has no first value (weft.initial) of its type");
    ir::HostTensor host = ir::HostTensor::from(initial);
    return wrap_quietly(make_leaf(type, buffer_of(host.bytes.data(), type->bytes, type->device)));
  }

  void read_result(unsigned i) {
    std::string which = "result " + std::to_string(i);
    const TypeInfo *type = type_of(main_.getResultTypes()[i], which);
    Target &target = program_.bound.targets.emplace_back();
    target.type = type;
    auto writes = main_.getResultAttrOfType<mlir::IntegerAttr>(i, ir::kWritesAttr);
    if (!writes) {
      target.outputs.push_back(static_cast<uint32_t>(program_.outputs.size()));
      program_.outputs.push_back(type);
      if (program_.outputs.size() != program_.bound.targets.size())
        refuse(which + " of @main is an output behind what the program writes (weft.writes)");
      return;
    }
    int64_t argument = writes.getInt();
    if (argument < 0 || argument >= main_.getNumArguments() ||
        main_.getArgumentTypes()[argument] != main_.getResultTypes()[i])
      refuse(which + " of @main writes argument " + std::to_string(argument) +
             ", which is not there or has another type");
    Source &source = program_.bound.sources[argument];
    if (source.written)
      refuse("argument " + std::to_string(argument) + " of @main is written by two results");
    source.written = true;
    if (source.kind == Source::Kind::kArgument)
      target.arguments.push_back(source.argument);
    else
      target.storages.push_back(source.storage);
  }

  ProgramImpl &program_;
  const std::string &name_;
  Location location_;
  const ProgramImpl *keeper_;
  mlir::func::FuncOp main_;
  std::optional<compiler::SizeRange> range_;
  llvm::StringSet<> names_; // of what the program keeps
};

} // namespace

ProgramImpl::~ProgramImpl() {
  sized.clear();
  UnderLock lock;
  state.clear();
  bound = BoundProgram();
}

void describe_main(ProgramImpl &program, const std::string &name, Location location,
                   const ProgramImpl *keeper) {
  UnderLock lock;
  Reader(program, name, location, keeper).read();
}

// The first op of a dialect that is loaded for the compiler's own sake; null where there is none.
static mlir::Operation *foreign_op(mlir::ModuleOp module) {
  llvm::SmallPtrSet<mlir::Dialect *, 4> known;
  mlir::Operation *found = nullptr;
  module.walk([&](mlir::Operation *op) {
    llvm::StringRef name = op->getName().getDialectNamespace();
    bool is_own = name == ir::WeftDialect::getDialectNamespace() ||
                  name == mlir::func::FuncDialect::getDialectNamespace() ||
                  name == mlir::BuiltinDialect::getDialectNamespace();
    if (is_own || known.contains(op->getDialect()))
      return mlir::WalkResult::advance();
    if (ir::registrationOf(name.str()).empty()) {
      found = op;
      return mlir::WalkResult::interrupt();
    }
    known.insert(op->getDialect());
    return mlir::WalkResult::advance();
  });
  return found;
}

void parse_module(ProgramImpl &program, llvm::StringRef source, const std::string &name,
                  Location location) {
  ir::DiagnosticCollector diagnostics(program.context.get());
  if (source.trim().empty())
    throw Error(ErrorKind::kFile, name + " is empty", location);
  if (ir::inspectBytecode(source) == ir::BytecodeState::Damaged)
    throw Error(ErrorKind::kFile, name + " " + ir::kDamagedBytecode, location);
  // MLIR would read zeros.
  if (source.contains("dense_resource<__elided__>"))
    throw Error(ErrorKind::kFile,
                name + " leaves out values of large tensors, as Program::to_string() does "
                       "(dense_resource<__elided__>); Program::save() writes all of them",
                location);
  program.module = mlir::parseSourceString<mlir::ModuleOp>(
      source, mlir::ParserConfig(program.context.get()), name);
  if (!program.module)
    throw Error(ErrorKind::kFile, diagnostics.failure(name + " is not a program of weft ops"),
                location);
  if (mlir::Operation *op = foreign_op(*program.module))
    throw Error(ErrorKind::kFile,
                name + " holds " + op->getName().getStringRef().str() +
                    ": ops of a program are weft's, or of a dialect that a plugin registers",
                location);
}

std::shared_ptr<ProgramImpl> parse_program(llvm::StringRef source, const std::string &name,
                                           Location location, std::optional<uint8_t> device) {
  std::shared_ptr<ProgramImpl> program = make_program();
  if (device)
    program->bound.device = *device;
  parse_module(*program, source, name, location);
  describe_main(*program, name, location);
  return program;
}

ProgramImpl &checked_program(const std::shared_ptr<ProgramImpl> &impl, Location location) {
  if (!impl)
    fail_at(location, ErrorKind::kState, "an empty program: it was neither traced nor loaded");
  return *impl;
}

namespace {

std::string text_of(mlir::ModuleOp module, bool locations, bool whole) {
  mlir::OpPrintingFlags flags;
  flags.printNameLocAsPrefix();
  if (locations)
    // Beside the ops where people read them, and as MLIR reads them again.
    flags.enableDebugInfo(true, /*prettyForm=*/false).useLocalScope(!whole);
  // Weights are not for reading.
  constexpr int64_t kShownElements = 16;
  if (!whole)
    flags.elideLargeElementsAttrs(kShownElements);
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, flags);
  return text + "\n";
}

// The program's module with what the program keeps now. It has a context of its own, which goes
// with it: the program's would hold the values of each call until the program's end.
std::shared_ptr<ProgramImpl> with_values_of_now(ProgramImpl &program, Location location) {
  std::shared_ptr<ProgramImpl> now = make_program();
  parse_module(*now, bytecode_without_values(program, location), "the program", location);
  // Of one moment, since runs may go on.
  std::vector<Tensor> values;
  {
    UnderLock lock;
    for (const auto &[name, tensor] : program.state)
      values.push_back(wrap_quietly(tensor.impl()->var.without_history()));
  }
  ir::SignatureAttributes attributes(now->module->lookupSymbol<mlir::func::FuncOp>("main"));
  for (size_t i = 0; i < program.state.size(); ++i) {
    const Tensor &tensor = values[i];
    const void *data = tensor.data_bytes(location);
    ir::HostTensor host(tensor.dtype(), tensor.shape());
    if (!host.bytes.empty())
      std::memcpy(host.bytes.data(), data, host.bytes.size());
    attributes.argument(program.inputs.size() + i)
        .set(ir::kInitialAttr, host.toAttribute(now->context.get()));
  }
  return now;
}

std::string text_of(ProgramImpl &program, bool locations, bool whole, Location location) {
  if (whole && !program.state.empty()) {
    std::shared_ptr<ProgramImpl> now = with_values_of_now(program, location);
    return text_of(*now->module, locations, whole);
  }
  std::lock_guard<std::mutex> lock(program.mutex);
  return text_of(*program.module, locations, whole);
}

} // namespace

std::string bytecode_of(mlir::ModuleOp module, Location location) {
  std::string bytes = ir::writeBytecode(module);
  if (bytes.empty())
    throw Error(ErrorKind::kCompile, "the program cannot be written as bytecode", location);
  return bytes;
}

std::string bytecode_of(ProgramImpl &program, Location location) {
  if (!program.state.empty())
    return bytecode_of(*with_values_of_now(program, location)->module, location);
  std::lock_guard<std::mutex> lock(program.mutex);
  return bytecode_of(*program.module, location);
}

std::string bytecode_without_values(ProgramImpl &program, Location location) {
  std::lock_guard<std::mutex> lock(program.mutex);
  if (program.state.empty())
    return bytecode_of(*program.module, location);
  mlir::OwningOpRef<mlir::ModuleOp> module = program.module->clone();
  {
    ir::SignatureAttributes attributes(module->lookupSymbol<mlir::func::FuncOp>("main"));
    for (size_t i = 0; i < program.state.size(); ++i)
      attributes.argument(program.inputs.size() + i).erase(ir::kInitialAttr);
  }
  return bytecode_of(*module, location);
}

} // namespace recorder

void Program::print(Location location) const {
  print(std::cout, location);
}
void Program::print(std::ostream &stream, Location location) const {
  stream << to_string(true, location);
}
std::string Program::to_string(bool locations, Location location) const {
  return recorder::text_of(recorder::checked_program(impl_, location), locations, false, location);
}

void Program::save(const std::string &path, ProgramFormat format, Location location) const {
  recorder::ProgramImpl &program = recorder::checked_program(impl_, location);
  std::string content = format == ProgramFormat::text
                            ? recorder::text_of(program, true, true, location)
                            : recorder::bytecode_of(program, location);
  std::span<const std::byte> bytes = std::as_bytes(std::span(content));
  if (absl::Status status = runtime::write_file_atomically(path, {&bytes, 1}); !status.ok())
    fail_at(location, ErrorKind::kFile, std::string(status.message()));
}

Program Program::parse(const std::string &text, Location location) {
  return Program(recorder::parse_program(text, "the text", CallerScope::resolve(location)));
}

Program Program::load(const std::string &path, Location location) {
  location = CallerScope::resolve(location);
  absl::StatusOr<std::vector<std::byte>> bytes = runtime::read_file(path);
  if (!bytes.ok())
    throw Error(ErrorKind::kFile, std::string(bytes.status().message()), location);
  return Program(recorder::parse_program(
      {reinterpret_cast<const char *>(bytes->data()), bytes->size()}, path, location));
}

} // namespace weft
