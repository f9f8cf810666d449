#include "runtime/executable/program.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/core/status.h"
#include "runtime/executable/check_specs.h"

namespace weft::runtime {
namespace {

// Of operations and bytes in notes: more is not counted, and finite.
constexpr double kMostAmount = 1e30;

bool is_size(int64_t value) {
  return value >= 0 && value <= kMostBufferBytes;
}

bool is_index(int32_t index, size_t size) {
  return index >= 0 && static_cast<size_t>(index) < size;
}

template <typename... Parts> absl::Status invalid(const Parts &...parts) {
  return absl::InvalidArgumentError(absl::StrCat("invalid program: ", parts...));
}

absl::Status invalid_if(const absl::Status &status) {
  return status.ok() ? status : invalid(std::string(status.message()));
}

absl::Status check_buffers(const Program &program) {
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    const BufferEntry &entry = program.buffers[i];
    int64_t limit = 0;
    switch (entry.kind) {
    case BufferKind::kArena:
      limit = program.arena_bytes;
      break;
    case BufferKind::kConstant:
      limit = static_cast<int64_t>(program.constants.size());
      break;
    case BufferKind::kState:
      limit = program.state_bytes;
      break;
    case BufferKind::kInput:
      if (!is_index(entry.index, program.inputs.size()))
        return invalid("buffer ", i, " is input ", entry.index, ", which is not there");
      limit = program.inputs[entry.index].bytes;
      break;
    case BufferKind::kOutput:
      if (!is_index(entry.index, program.outputs.size()))
        return invalid("buffer ", i, " is output ", entry.index, ", which is not there");
      limit = program.outputs[entry.index].bytes;
      break;
    case BufferKind::kPrepared:
      if (program.prepare.empty() || !is_index(entry.index, program.prepare.front().outputs.size()))
        return invalid("buffer ", i, " is prepared value ", entry.index, ", which is not there");
      limit = program.prepare.front().outputs[entry.index].bytes;
      break;
    default:
      return invalid("buffer ", i, " is of no known kind");
    }
    if (!is_size(entry.offset) || !is_size(entry.bytes) || entry.offset + entry.bytes > limit)
      return invalid("buffer ", i, " is [", entry.offset, ", +", entry.bytes, ") of ", limit,
                     " bytes");
  }
  return absl::OkStatus();
}

// Checks one instruction.
struct InstructionCheck {
  const Program &program;
  size_t position;

  bool is_buffer(int32_t index) const {
    return is_index(index, program.buffers.size());
  }

  bool may_write(int32_t index) const {
    const BufferEntry &entry = program.buffers[index];
    if (entry.kind == BufferKind::kInput)
      return program.inputs[entry.index].donatable;
    return entry.kind != BufferKind::kConstant && entry.kind != BufferKind::kPrepared;
  }

  absl::Status fail(const char *what) const {
    return invalid("instruction ", position, ": ", what);
  }

  absl::Status operator()(const Launch &launch) const {
    if (!is_index(launch.kernel, program.symbols.size()))
      return fail("no such kernel");
    if (!is_index_or_none(launch.finish, program.symbols.size()))
      return fail("no such finish kernel");
    for (int32_t operand : launch.operands)
      if (!is_buffer(operand))
        return fail("no such operand");
    if (launch.partials != -1 && !is_buffer(launch.partials))
      return fail("no such buffer of partial results");
    if (launch.count < 0 || launch.count > kMostBufferBytes)
      return fail("count is out of range");
    if (launch.grain < 1 || launch.grain > kMostBufferBytes)
      return fail("grain is out of range");
    for (const IndexCheck &check : launch.checks) {
      if (!is_index_or_none(check.operand, launch.operands.size()))
        return fail("no such operand to check");
      if (is_floating(check.dtype))
        return fail("indices are not integers");
      WEFT_RETURN_IF_ERROR(location(check.location));
    }
    return locations(launch);
  }

  absl::Status operator()(const LibraryCall &call) const {
    if (call.inputs < 0 || static_cast<size_t>(call.inputs) > call.operands.size())
      return fail("more inputs than operands");
    for (size_t i = 1; i < call.config.size(); ++i)
      if (!(call.config[i - 1].first < call.config[i].first))
        return fail("config keys are not sorted");
    for (size_t i = 0; i < call.operands.size(); ++i) {
      const TensorRef &operand = call.operands[i];
      if (!is_buffer(operand.buffer))
        return fail("no such operand");
      WEFT_RETURN_IF_ERROR(extent(operand));
      if (i >= static_cast<size_t>(call.inputs) && !may_write(operand.buffer))
        return fail("writes a buffer that is not to be written");
    }
    if (call.scratch != -1 && (!is_buffer(call.scratch) || !may_write(call.scratch)))
      return fail("no such scratch buffer");
    return locations(call);
  }

  absl::Status operator()(const Copy &copy) const {
    if (!is_buffer(copy.source) || !is_buffer(copy.target))
      return fail("no such buffer");
    if (!may_write(copy.target))
      return fail("writes a buffer that is not to be written");
    if (copy.bytes < 0 || copy.bytes > program.buffers[copy.source].bytes ||
        copy.bytes > program.buffers[copy.target].bytes)
      return fail("copies more bytes than there are");
    return location(copy.location);
  }

  absl::Status operator()(const Fill &fill) const {
    if (!is_buffer(fill.target))
      return fail("no such buffer");
    if (!may_write(fill.target))
      return fail("writes a buffer that is not to be written");
    if (fill.width != 1 && fill.width != 2 && fill.width != 4 && fill.width != 8)
      return fail("fills with a pattern of no known width");
    if (fill.bytes < 0 || fill.bytes > program.buffers[fill.target].bytes ||
        fill.bytes % fill.width != 0)
      return fail("fills more bytes than there are, or a part of an element");
    return location(fill.location);
  }

  template <typename Kind> absl::Status locations(const Kind &instruction) const {
    for (int32_t line : instruction.lines)
      if (!is_index(line, program.locations.size()))
        return fail("no such line");
    if (program.modules.size() > program.locations.size())
      return fail("more modules than locations");
    return location(instruction.location);
  }

  absl::Status location(int32_t index) const {
    return is_index_or_none(index, program.locations.size()) ? absl::OkStatus()
                                                             : fail("no such location");
  }

  // The elements that the strides reach lie within the buffer.
  absl::Status extent(const TensorRef &operand) const {
    if (!is_dtype(operand.dtype))
      return fail("operand of no known dtype");
    if (operand.dims.size() != operand.strides.size())
      return fail("operand with more or fewer strides than dims");
    int64_t low = operand.offset;
    int64_t high = operand.offset;
    if (!is_size(operand.offset))
      return fail("operand offset is out of range");
    for (int64_t dim : operand.dims) {
      if (dim < 0)
        return fail("operand with a negative dim");
      if (dim == 0)
        return absl::OkStatus(); // nothing is touched
    }
    for (size_t i = 0; i < operand.dims.size(); ++i) {
      int64_t reach;
      if (__builtin_mul_overflow(operand.dims[i] - 1, operand.strides[i], &reach) ||
          __builtin_mul_overflow(reach, byte_size(operand.dtype), &reach) ||
          __builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high))
        return fail("operand strides are out of range");
    }
    if (low < 0 || high > kMostBufferBytes ||
        high + byte_size(operand.dtype) > program.buffers[operand.buffer].bytes)
      return fail("operand reaches beyond its buffer");
    return absl::OkStatus();
  }
};

} // namespace

namespace {

absl::Status check_prepare(const Program &program) {
  if (program.prepare.empty())
    return program.prepare_inputs.empty()
               ? absl::OkStatus()
               : invalid("there are inputs to prepare, but nothing that prepares them");
  if (program.prepare.size() > 1)
    return invalid("there is more than one program that prepares");
  const Program &prepare = program.prepare.front();
  if (!prepare.prepare.empty())
    return invalid("the program that prepares is itself prepared");
  if (absl::Status status = validate(prepare); !status.ok())
    return absl::Status(status.code(), absl::StrCat("what prepares: ", status.message()));
  if (program.prepare_inputs.size() != prepare.inputs.size())
    return invalid(program.prepare_inputs.size(), " rows are prepared by a program of ",
                   prepare.inputs.size(), " inputs");
  for (size_t i = 0; i < prepare.inputs.size(); ++i) {
    if (prepare.inputs[i].donatable)
      return invalid("what prepares may write its input ", i);
    int32_t row = program.prepare_inputs[i];
    if (!is_index(row, program.buffers.size()))
      return invalid("the prepared row ", row, " is not there");
    const BufferEntry &entry = program.buffers[row];
    bool stable = entry.kind == BufferKind::kInput && program.inputs[entry.index].stable &&
                  !program.inputs[entry.index].donatable;
    if (!stable && entry.kind != BufferKind::kConstant)
      return invalid("the prepared row ", row, " is neither a stable input nor a constant");
    if (entry.bytes != prepare.inputs[i].bytes)
      return invalid("the prepared row ", row, " has another size than the input that reads it");
  }
  for (size_t i = 0; i < prepare.outputs.size(); ++i)
    if (prepare.outputs[i].alias_input != -1)
      return invalid("the prepared value ", i, " is an input, unchanged");
  return absl::OkStatus();
}

} // namespace

absl::Status validate(const Program &program) {
  for (int64_t bytes :
       {program.arena_bytes, program.state_bytes, program.thread_scratch_bytes, program.peak_bytes,
        program.live_bytes_bound, static_cast<int64_t>(program.constants.size())})
    if (!is_size(bytes))
      return invalid("a size is out of range: ", bytes);
  for (const PeakHolder &holder : program.memory.peak_holders)
    if (!is_size(holder.bytes))
      return invalid("a size is out of range: ", holder.bytes);
  for (int64_t bytes : program.memory.live_bytes)
    if (!is_size(bytes))
      return invalid("a size is out of range: ", bytes);
  if (program.notes.size() > program.symbols.size())
    return invalid("there are more notes than kernels");
  for (const KernelNote &note : program.notes)
    for (double amount : {note.flops_of_piece, note.bytes_of_piece, note.fixed_bytes})
      if (!(amount >= 0 && amount <= kMostAmount))
        return invalid("a note states an amount out of range: ", amount);
  WEFT_RETURN_IF_ERROR(invalid_if(check_specs(program.inputs, program.outputs)));
  WEFT_RETURN_IF_ERROR(check_buffers(program));
  WEFT_RETURN_IF_ERROR(check_prepare(program));
  for (size_t i = 0; i < program.instructions.size(); ++i)
    WEFT_RETURN_IF_ERROR(std::visit(InstructionCheck{program, i}, program.instructions[i]));
  return absl::OkStatus();
}

bool is_serial(const Program &program, bool one_thread, bool libraries) {
  // State is kept from run to run, so only one run at a time may use it: the program is not serial.
  if (program.state_bytes > 0)
    return false;
  if (!program.prepare.empty() && !is_serial(program.prepare.front(), one_thread, libraries))
    return false;
  return std::all_of(program.instructions.begin(), program.instructions.end(),
                     [&](const Instruction &instruction) {
                       if (const Launch *launch = std::get_if<Launch>(&instruction))
                         return one_thread || launch->serial || launch->count <= launch->grain;
                       return libraries || !std::holds_alternative<LibraryCall>(instruction);
                     });
}

} // namespace weft::runtime
