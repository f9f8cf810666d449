#include "runtime/executable/profile_labels.h"

#include <algorithm>
#include <string>

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

class LabelMaker {
public:
  LabelMaker(const Program &program, std::span<const double> operations)
      : program_(program), operations_(operations) {}

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
    if (location != -1)
      args.add("line", program_.locations[location]);
    if (all.size() > 1) {
      std::vector<std::string> texts;
      for (int32_t line : all)
        texts.push_back(program_.locations[line]);
      args.add("lines", texts);
    }
    return args;
  }

  // The names of the weights that it reads, where the program has them: "encoder.0.up.weight". What
  // stands before the last dot is a module's path.
  void parameters(Args &args, std::span<const int32_t> operands) const {
    std::vector<std::string> names;
    for (int32_t operand : operands) {
      const BufferEntry &entry = program_.buffers[operand];
      if (entry.kind != BufferKind::kInput)
        continue;
      const std::string &name = program_.inputs[entry.index].name;
      if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end())
        names.push_back(name);
    }
    if (!names.empty())
      args.add("reads", names);
  }

  const Program &program_;
  std::span<const double> operations_;
  size_t next_call_ = 0;
};

} // namespace

ProfileLabels make_profile_labels(const Program &program, std::span<const double> operations) {
  ProfileLabels labels;
  LabelMaker make(program, operations);
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
