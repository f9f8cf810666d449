// weft::Program::set_names.
#include <set>

#include "dialects/weft/ir/Attributes.h"
#include "dialects/weft/ir/SignatureAttributes.h"
#include "frontend/programs/program_impl.h"

namespace weft {
namespace {

// One for each, or none at all; each once, also among those that the program keeps.
void check_names(const char *what, const std::vector<std::string> &names, size_t count,
                 const recorder::ProgramImpl &program, Location location) {
  auto refuse = [&](const std::string &why) {
    throw Error(ErrorKind::kValue, "set_names: " + why, location);
  };
  if (!names.empty() && names.size() != count)
    refuse(std::string(what) + ": the list of names has " + std::to_string(names.size()) +
           ", the program has " + std::to_string(count) + ", in the order of run()");
  std::set<std::string> known;
  for (const auto &[name, tensor] : program.state)
    known.insert(name);
  for (const std::string &name : names) {
    // NAME=FILE is how an executable is given one.
    if (name.empty() || name.find('=') != name.npos)
      refuse("'" + name + "' is a name of " + what + "; it must have a character, and no '='");
    if (!known.insert(name).second)
      refuse("two " + std::string(what) + ", or one and what the program keeps, are called '" +
             name + "'");
  }
}

} // namespace

void Program::set_names(const std::vector<std::string> &inputs,
                        const std::vector<std::string> &outputs, Location location) {
  location = CallerScope::resolve(location);
  recorder::ProgramImpl &program = recorder::checked_program(impl_, location);
  check_names("inputs", inputs, program.inputs.size(), program, location);
  check_names("outputs", outputs, program.outputs.size(), program, location);
  std::lock_guard<std::mutex> lock(program.mutex);
  auto text = [&](const std::string &name) {
    return mlir::StringAttr::get(program.context.get(), name);
  };
  ir::SignatureAttributes attributes(program.module->lookupSymbol<mlir::func::FuncOp>("main"));
  for (size_t i = 0; i < inputs.size(); ++i)
    attributes.argument(i).set(ir::kNameAttr, text(inputs[i]));
  for (size_t i = 0; i < outputs.size(); ++i)
    attributes.result(i).set(ir::kNameAttr, text(outputs[i]));
}

} // namespace weft
