// weft::Program::differentiate.
#include "compiler/graph/Differentiate.h"
#include "dialects/weft/ir/DiagnosticCollector.h"
#include "dialects/weft/ir/Weft.h"
#include "frontend/recorder/program_impl.h"

namespace weft {

Program Program::differentiate(const DifferentiateOptions &options, Location location) const {
  location = CallerScope::resolve(location);
  recorder::ProgramImpl &source = recorder::checked_program(impl_, location);
  // A context of its own: programs live and die by themselves.
  std::shared_ptr<recorder::ProgramImpl> program =
      recorder::parse_program(recorder::bytecode_of(source), "the program", location);
  ir::DiagnosticCollector diagnostics(program->context.get());
  auto main = program->module->lookupSymbol<mlir::func::FuncOp>("main");
  compiler::DifferentiateOptions ours;
  ours.arguments.assign(options.arguments.begin(), options.arguments.end());
  ours.result = options.result;
  mlir::FailureOr<mlir::func::FuncOp> derivative = compiler::differentiate(main, ours);
  if (mlir::failed(derivative))
    throw Error(ErrorKind::kValue, diagnostics.failure("differentiate"), location);
  main.erase();
  derivative->setName("main");
  recorder::describe_types(*program, "the derivative", location);
  return Program(program);
}

} // namespace weft
