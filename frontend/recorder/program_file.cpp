// weft::Program as text and as bytecode: printing, saving, loading.
#include <iostream>

#include "dialects/weft/ir/BytecodeFile.h"
#include "dialects/weft/ir/DiagnosticCollector.h"
#include "dialects/weft/ir/Weft.h"
#include "frontend/recorder/program_impl.h"
#include "frontend/recorder/recorder.h"
#include "mlir/Parser/Parser.h"
#include "runtime/io/files.h"
#include "llvm/Support/raw_ostream.h"

namespace weft {
namespace recorder {

std::shared_ptr<ProgramImpl> make_program() {
  auto program = std::make_shared<ProgramImpl>();
  mlir::DialectRegistry registry;
  registry.insert<ir::WeftDialect, mlir::func::FuncDialect>();
  program->context =
      std::make_unique<mlir::MLIRContext>(registry, mlir::MLIRContext::Threading::DISABLED);
  program->context->loadAllAvailableDialects();
  return program;
}

void describe_types(ProgramImpl &program, const std::string &name, Location location) {
  auto main = program.module->lookupSymbol<mlir::func::FuncOp>("main");
  if (!main || !llvm::hasSingleElement(main.getBody()))
    throw Error(ErrorKind::kFile, name + " has no function @main with one block", location);
  auto describe = [&](mlir::Type type, const char *what, size_t number,
                      std::vector<const TypeInfo *> &into) {
    auto tensor = mlir::dyn_cast<mlir::RankedTensorType>(type);
    const DTypeInfo *dtype = nullptr;
    for (const DTypeInfo &each : kDTypes)
      if (tensor && tensor.hasStaticShape() &&
          ir::elementType(each.dtype, program.context.get()) == tensor.getElementType())
        dtype = &each;
    if (!dtype) {
      std::string text;
      llvm::raw_string_ostream(text) << type;
      throw Error(ErrorKind::kFile,
                  name + ": " + what + " " + std::to_string(number) + " of @main is " + text +
                      "; it must be a tensor of static shape and of an element type of Weft's",
                  location);
    }
    std::lock_guard<RecorderMutex> lock(recorder_mutex());
    into.push_back(
        type_info(dtype->dtype, Shape(tensor.getShape().begin(), tensor.getShape().end())));
  };
  program.inputs.clear();
  program.outputs.clear();
  for (mlir::Type type : main.getArgumentTypes())
    describe(type, "argument", program.inputs.size(), program.inputs);
  for (mlir::Type type : main.getResultTypes())
    describe(type, "result", program.outputs.size(), program.outputs);
}

std::shared_ptr<ProgramImpl> parse_program(llvm::StringRef source, const std::string &name,
                                           Location location) {
  std::shared_ptr<ProgramImpl> program = make_program();
  ir::DiagnosticCollector diagnostics(program->context.get());
  if (source.trim().empty())
    throw Error(ErrorKind::kFile, name + " is empty", location);
  if (ir::inspectBytecode(source) == ir::BytecodeState::Damaged)
    throw Error(ErrorKind::kFile, name + " " + ir::kDamagedBytecode, location);
  program->module = mlir::parseSourceString<mlir::ModuleOp>(
      source, mlir::ParserConfig(program->context.get()), name);
  if (!program->module)
    throw Error(ErrorKind::kFile, diagnostics.failure(name + " is not a program of weft ops"),
                location);
  describe_types(*program, name, location);
  return program;
}

ProgramImpl &checked_program(const std::shared_ptr<ProgramImpl> &impl, Location location) {
  if (!impl)
    throw Error(ErrorKind::kState, "an empty program: it was neither traced nor loaded",
                CallerScope::resolve(location));
  return *impl;
}

namespace {

std::string text_of(ProgramImpl &program, bool locations, bool whole) {
  std::lock_guard<std::mutex> lock(program.mutex);
  mlir::OpPrintingFlags flags;
  if (locations)
    flags.enableDebugInfo(true, /*prettyForm=*/!whole);
  // Weights are not for reading.
  constexpr int64_t kShownElements = 16;
  if (!whole)
    flags.elideLargeElementsAttrs(kShownElements);
  std::string text;
  llvm::raw_string_ostream stream(text);
  program.module->print(stream, flags);
  return text + "\n";
}

} // namespace

std::string bytecode_of(ProgramImpl &program) {
  std::lock_guard<std::mutex> lock(program.mutex);
  std::string bytes = ir::writeBytecode(*program.module);
  if (bytes.empty())
    throw Error(ErrorKind::kCompile, "the program cannot be written as bytecode");
  return bytes;
}

} // namespace recorder

void Program::print() const {
  print(std::cout);
}
void Program::print(std::ostream &stream) const {
  stream << to_string();
}
std::string Program::to_string(bool locations) const {
  return recorder::text_of(recorder::checked_program(impl_), locations, false);
}

void Program::save(const std::string &path, ProgramFormat format, Location location) const {
  recorder::ProgramImpl &program = recorder::checked_program(impl_, location);
  std::string content = format == ProgramFormat::text ? recorder::text_of(program, true, true)
                                                      : recorder::bytecode_of(program);
  std::span<const std::byte> bytes = std::as_bytes(std::span(content));
  if (absl::Status status = runtime::write_file_atomically(path, {&bytes, 1}); !status.ok())
    throw Error(ErrorKind::kFile, std::string(status.message()), CallerScope::resolve(location));
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
