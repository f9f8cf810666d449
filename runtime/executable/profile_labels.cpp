#include "runtime/executable/profile_labels.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "runtime/profile/profile.h"

namespace weft::runtime {
namespace {

using profile::Args;
using profile::Kind;
using profile::Label;
using profile::number_of;

std::string type_text(const TensorRef &tensor) {
  std::string text = absl::StrCat(name(tensor.dtype), "[");
  for (size_t i = 0; i < tensor.dims.size(); ++i)
    absl::StrAppend(&text, i == 0 ? "" : ",", tensor.dims[i]);
  return text + "]";
}

// Of the elements that a call sees: a dim that repeats is there once.
double bytes_of(const TensorRef &tensor) {
  auto bytes = static_cast<double>(byte_size(tensor.dtype));
  for (size_t i = 0; i < tensor.dims.size(); ++i)
    bytes *= static_cast<double>(tensor.strides[i] == 0 ? std::min<int64_t>(tensor.dims[i], 1)
                                                        : tensor.dims[i]);
  return bytes;
}

using Names = std::vector<std::string>;

void add_names(Names &to, const Names &more) {
  for (const std::string &name : more)
    if (std::find(to.begin(), to.end(), name) == to.end())
      to.push_back(name);
}

Names name_of_input(const Program &program, const BufferEntry &entry) {
  const std::string &name = program.inputs[entry.index].name;
  return name.empty() ? Names() : Names{name};
}

// The buffers of an instruction; which of them a launch writes is not said.
std::vector<int32_t> rows_of(const Instruction &instruction) {
  if (const auto *launch = std::get_if<Launch>(&instruction))
    return launch->operands;
  if (const auto *copy = std::get_if<Copy>(&instruction))
    return {copy->source, copy->target};
  if (const auto *fill = std::get_if<Fill>(&instruction))
    return {fill->target};
  std::vector<int32_t> rows;
  for (const TensorRef &operand : std::get<LibraryCall>(instruction).operands)
    rows.push_back(operand.buffer);
  return rows;
}

// The names of the weights that each prepared value is computed of: an instruction passes those of
// all its operands on to all that it may write.
std::vector<Names> names_of_prepared(const Program &program) {
  if (program.prepare.empty())
    return {};
  const Program &prepare = program.prepare.front();
  std::map<std::tuple<BufferKind, int32_t, int64_t>, Names> known;
  auto names = [&](int32_t row) -> Names & {
    const BufferEntry &entry = prepare.buffers[row];
    return known[{entry.kind, entry.index, entry.offset}];
  };
  for (size_t row = 0; row < prepare.buffers.size(); ++row)
    if (prepare.buffers[row].kind == BufferKind::kInput) {
      const BufferEntry &outer =
          program.buffers[program.prepare_inputs[prepare.buffers[row].index]];
      if (outer.kind == BufferKind::kInput)
        names(static_cast<int32_t>(row)) = name_of_input(program, outer);
    }
  std::vector<Names> result(prepare.outputs.size());
  for (const Instruction &instruction : prepare.instructions) {
    std::vector<int32_t> rows = rows_of(instruction);
    Names all;
    for (int32_t row : rows)
      add_names(all, names(row));
    for (int32_t row : rows) {
      const BufferEntry &entry = prepare.buffers[row];
      if (entry.kind == BufferKind::kArena || entry.kind == BufferKind::kOutput)
        names(row) = all;
      if (entry.kind == BufferKind::kOutput)
        add_names(result[entry.index], all);
    }
  }
  return result;
}

class LabelMaker {
public:
  LabelMaker(const Program &program, std::span<const double> operations,
             std::span<const std::string> detours)
      : program_(program), operations_(operations), detours_(detours),
        prepared_(names_of_prepared(program)) {}

  uint32_t operator()(const Launch &launch) {
    Label label{Kind::kKernel, program_.symbols[launch.kernel]};
    Args args = lines(launch.location, launch.lines);
    parameters(args, launch.operands);
    if (static_cast<size_t>(launch.kernel) < program_.notes.size()) {
      const KernelNote &note = program_.notes[launch.kernel];
      auto count = static_cast<double>(launch.count);
      label.flops = note.flops_of_piece * count;
      label.bytes = note.fixed_bytes + note.bytes_of_piece * count;
      if (!note.types.empty())
        args.add("types", note.types);
    }
    label.args = args.take();
    return number_of(label);
  }

  uint32_t operator()(const LibraryCall &call) {
    Label label{Kind::kLibrary, call.entry};
    Args args = lines(call.location, call.lines);
    std::string types;
    std::vector<int32_t> buffers;
    for (size_t i = 0; i < call.operands.size(); ++i) {
      label.bytes += bytes_of(call.operands[i]);
      absl::StrAppend(&types,
                      i == 0                                  ? ""
                      : i == static_cast<size_t>(call.inputs) ? " -> "
                                                              : " ",
                      type_text(call.operands[i]));
      buffers.push_back(call.operands[i].buffer);
    }
    parameters(args, buffers);
    args.add("types", types);
    if (next_call_ < detours_.size() && !detours_[next_call_].empty())
      args.add("detour", detours_[next_call_]);
    label.flops = operations_[next_call_++];
    label.args = args.take();
    return number_of(label);
  }

  uint32_t operator()(const Copy &copy) {
    return number_of({Kind::kCopy, "copy", lines(copy.location, {}).take(), "", 0,
                      2 * static_cast<double>(copy.bytes)});
  }

  uint32_t operator()(const Fill &fill) {
    return number_of({Kind::kFill, "fill", lines(fill.location, {}).take(), "", 0,
                      static_cast<double>(fill.bytes)});
  }

private:
  Args lines(int32_t location, const std::vector<int32_t> &all) const {
    Args args;
    if (location == -1)
      return args;
    Names texts, modules;
    add_names(texts, {program_.locations[location]});
    auto add_module = [&](int32_t line) {
      if (static_cast<size_t>(line) < program_.modules.size() && !program_.modules[line].empty())
        add_names(modules, {program_.modules[line]});
    };
    add_module(location);
    for (int32_t line : all) {
      add_names(texts, {program_.locations[line]});
      add_module(line);
    }
    args.add("line", texts.front());
    if (texts.size() > 1)
      args.add("lines", texts);
    if (!modules.empty())
      args.add("module", modules.front());
    if (modules.size() > 1)
      args.add("modules", modules);
    return args;
  }

  // The names of the inputs and weights that it reads, or reads something prepared of, where the
  // program has them: "encoder.0.up.weight". What stands before the last dot is a module's path.
  void parameters(Args &args, std::span<const int32_t> operands) const {
    Names names;
    for (int32_t operand : operands) {
      const BufferEntry &entry = program_.buffers[operand];
      if (entry.kind == BufferKind::kInput)
        add_names(names, name_of_input(program_, entry));
      else if (entry.kind == BufferKind::kPrepared)
        add_names(names, prepared_[entry.index]);
    }
    if (!names.empty())
      args.add("reads", names);
  }

  const Program &program_;
  std::span<const double> operations_;
  std::span<const std::string> detours_;
  std::vector<Names> prepared_; // of each prepared value
  size_t next_call_ = 0;
};

} // namespace

ProfileLabels make_profile_labels(const Program &program, std::span<const double> operations,
                                  std::span<const std::string> detours) {
  ProfileLabels labels;
  LabelMaker make(program, operations, detours);
  for (const Instruction &instruction : program.instructions)
    labels.instructions.push_back(std::visit(make, instruction));
  labels.program =
      number_of({Kind::kProgram, "program",
                 Args()
                     .add("instructions", static_cast<int64_t>(program.instructions.size()))
                     .add("inputs", static_cast<int64_t>(program.inputs.size()))
                     .add("outputs", static_cast<int64_t>(program.outputs.size()))
                     .add("arena bytes", program.arena_bytes)
                     .take(),
                 "threads", 0, 0});
  return labels;
}

} // namespace weft::runtime
