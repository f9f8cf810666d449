// weft::Program::differentiate.
#include "compiler/graph/Differentiate.h"
#include "dialects/weft/ir/DiagnosticCollector.h"
#include "dialects/weft/ir/Weft.h"
#include "frontend/programs/program_impl.h"

namespace weft {

Program Program::differentiate(const DifferentiateOptions &options, Location location) const {
  location = CallerScope::resolve(location);
  recorder::ProgramImpl &source = recorder::checked_program(impl_, location);
  if (source.bound.targets.size() != source.outputs.size())
    throw Error(ErrorKind::kValue,
                "differentiate: the program writes what it keeps or is given, which has no "
                "derivative; differentiate inside the function, or trace one that only computes",
                location);
  // A context of its own: programs live and die by themselves.
  std::shared_ptr<recorder::ProgramImpl> program =
      recorder::parse_program(recorder::bytecode_of(source, location), "the program", location,
                              source.bound.device);
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
  recorder::describe_main(*program, "the derivative", location);
  return Program(program);
}

} // namespace weft
