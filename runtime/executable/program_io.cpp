// Programs as bytes: a fixed header, the fields in order, padding, the constants.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/core/byte_stream.h"
#include "runtime/executable/program.h"

namespace weft::runtime {
namespace {

constexpr char kMagic[8] = {'W', 'E', 'F', 'T', 'P', 'L', 'A', 'N'};
// magic, version, zero, size of the whole, checksum of all that follows the header
constexpr size_t kHeaderBytes = 8 + 4 + 4 + 8 + 8;

enum class Tag : uint8_t { kLaunch = 0, kLibraryCall = 1, kCopy = 2, kFill = 3 };

// The least bytes that one item takes in the file; they bound counts before anything is allocated.
constexpr size_t kMinString = 8;
constexpr size_t kMinInput = 8 + 1 + 8 + 8 + 1 + 1;
constexpr size_t kMinOutput = 8 + 1 + 8 + 8 + 3 * 4;
constexpr size_t kBufferBytes = 1 + 4 + 8 + 8;
constexpr size_t kMinInstruction = 1 + 2 * 4 + 8 + 4; // a copy
constexpr size_t kMinOperand = 4 + 8 + 1 + 8 + 8;
constexpr size_t kMinConfig = 8 + 1 + 8;
constexpr size_t kMinCheck = 8 + 4 + 1 + 8 + 8 + 1 + 8 + 4;

struct Writer {
  ByteWriter &out;

  void operator()(const Launch &launch) {
    out.scalar(Tag::kLaunch);
    out.scalar(launch.kernel);
    out.scalar(launch.finish);
    out.scalars(launch.operands);
    out.scalar(launch.partials);
    out.scalar(launch.count);
    out.scalar(launch.grain);
    out.scalar<uint8_t>(launch.serial);
    out.scalar(launch.location);
    out.scalar<uint64_t>(launch.checks.size());
    for (const IndexCheck &check : launch.checks) {
      out.string(check.op);
      out.scalar(check.operand);
      out.scalar(check.dtype);
      out.scalar(check.lower);
      out.scalar(check.upper);
      out.scalar<uint8_t>(check.ignores);
      out.scalar(check.ignored);
      out.scalar(check.location);
    }
  }

  void operator()(const LibraryCall &call) {
    out.scalar(Tag::kLibraryCall);
    out.string(call.entry);
    out.scalar<uint64_t>(call.config.size());
    for (const auto &[key, value] : call.config) {
      out.string(key);
      out.scalar<uint8_t>(static_cast<uint8_t>(value.index()));
      if (const int64_t *number = std::get_if<int64_t>(&value)) out.scalar(*number);
      else if (const double *real = std::get_if<double>(&value)) out.scalar(*real);
      else if (const std::string *text = std::get_if<std::string>(&value)) out.string(*text);
      else out.scalars(std::get<std::vector<int64_t>>(value));
    }
    out.scalar<uint64_t>(call.operands.size());
    for (const TensorRef &operand : call.operands) {
      out.scalar(operand.buffer);
      out.scalar(operand.offset);
      out.scalar(operand.dtype);
      out.scalars(operand.dims);
      out.scalars(operand.strides);
    }
    out.scalar(call.inputs);
    out.scalar(call.scratch);
    out.scalar(call.location);
  }

  void operator()(const Copy &copy) {
    out.scalar(Tag::kCopy);
    out.scalar(copy.source);
    out.scalar(copy.target);
    out.scalar(copy.bytes);
    out.scalar(copy.location);
  }

  void operator()(const Fill &fill) {
    out.scalar(Tag::kFill);
    out.scalar(fill.target);
    out.scalar(fill.pattern);
    out.scalar(fill.width);
    out.scalar(fill.bytes);
    out.scalar(fill.location);
  }
};

DType read_dtype(ByteReader &in) {
  uint8_t value = in.scalar<uint8_t>();
  if (value >= std::size(kDTypes)) {
    in.fail();
    return DType::kFloat32;
  }
  return static_cast<DType>(value);
}

bool read_bool(ByteReader &in) {
  uint8_t value = in.scalar<uint8_t>();
  if (value > 1) in.fail();
  return value == 1;
}

ConfigValue read_config_value(ByteReader &in) {
  switch (in.scalar<uint8_t>()) {
  case 0:
    return in.scalar<int64_t>();
  case 1:
    return in.scalar<double>();
  case 2:
    return in.string();
  case 3: {
    std::vector<int64_t> values;
    in.scalars<int64_t>(values);
    return values;
  }
  default:
    in.fail();
    return int64_t{0};
  }
}

Instruction read_instruction(ByteReader &in) {
  switch (in.scalar<uint8_t>()) {
  case static_cast<uint8_t>(Tag::kLaunch): {
    Launch launch;
    launch.kernel = in.scalar<int32_t>();
    launch.finish = in.scalar<int32_t>();
    in.scalars<int32_t>(launch.operands);
    launch.partials = in.scalar<int32_t>();
    launch.count = in.scalar<int64_t>();
    launch.grain = in.scalar<int64_t>();
    launch.serial = read_bool(in);
    launch.location = in.scalar<int32_t>();
    size_t checks = in.count(kMinCheck);
    for (size_t i = 0; i < checks && in.ok(); ++i) {
      IndexCheck check;
      check.op = in.string();
      check.operand = in.scalar<int32_t>();
      check.dtype = read_dtype(in);
      check.lower = in.scalar<int64_t>();
      check.upper = in.scalar<int64_t>();
      check.ignores = read_bool(in);
      check.ignored = in.scalar<int64_t>();
      check.location = in.scalar<int32_t>();
      launch.checks.push_back(std::move(check));
    }
    return launch;
  }
  case static_cast<uint8_t>(Tag::kLibraryCall): {
    LibraryCall call;
    call.entry = in.string();
    size_t pairs = in.count(kMinConfig);
    for (size_t i = 0; i < pairs && in.ok(); ++i) {
      std::string key = in.string();
      call.config.emplace_back(std::move(key), read_config_value(in));
    }
    size_t operands = in.count(kMinOperand);
    for (size_t i = 0; i < operands && in.ok(); ++i) {
      TensorRef operand;
      operand.buffer = in.scalar<int32_t>();
      operand.offset = in.scalar<int64_t>();
      operand.dtype = read_dtype(in);
      in.scalars<int64_t>(operand.dims);
      in.scalars<int64_t>(operand.strides);
      call.operands.push_back(std::move(operand));
    }
    call.inputs = in.scalar<int32_t>();
    call.scratch = in.scalar<int32_t>();
    call.location = in.scalar<int32_t>();
    return call;
  }
  case static_cast<uint8_t>(Tag::kCopy): {
    Copy copy;
    copy.source = in.scalar<int32_t>();
    copy.target = in.scalar<int32_t>();
    copy.bytes = in.scalar<int64_t>();
    copy.location = in.scalar<int32_t>();
    return copy;
  }
  case static_cast<uint8_t>(Tag::kFill): {
    Fill fill;
    fill.target = in.scalar<int32_t>();
    fill.pattern = in.scalar<uint64_t>();
    fill.width = in.scalar<int32_t>();
    fill.bytes = in.scalar<int64_t>();
    fill.location = in.scalar<int32_t>();
    return fill;
  }
  default:
    in.fail();
    return Copy();
  }
}

void write_fields(ByteWriter &out, const Program &program) {
  out.string(program.target);
  out.scalar<uint64_t>(program.inputs.size());
  for (const InputSpec &input : program.inputs) {
    out.string(input.name);
    out.scalar(input.dtype);
    out.scalars(input.dims);
    out.scalar(input.bytes);
    out.scalar<uint8_t>(input.donatable);
    out.scalar<uint8_t>(input.stable);
  }
  out.scalar<uint64_t>(program.outputs.size());
  for (const OutputSpec &output : program.outputs) {
    out.string(output.name);
    out.scalar(output.dtype);
    out.scalars(output.dims);
    out.scalar(output.bytes);
    out.scalar(output.donated_input);
    out.scalar(output.alias_input);
    out.scalar(output.alias_output);
  }
  out.scalar<uint64_t>(program.buffers.size());
  for (const BufferEntry &entry : program.buffers) {
    out.scalar(entry.kind);
    out.scalar(entry.index);
    out.scalar(entry.offset);
    out.scalar(entry.bytes);
  }
  for (const std::vector<std::string> *strings : {&program.symbols, &program.locations}) {
    out.scalar<uint64_t>(strings->size());
    for (const std::string &text : *strings) out.string(text);
  }
  for (int64_t value :
       {program.arena_bytes, program.state_bytes, program.thread_scratch_bytes, program.peak_bytes, program.live_bytes_bound})
    out.scalar(value);
  out.scalar<uint64_t>(program.instructions.size());
  for (const Instruction &instruction : program.instructions) std::visit(Writer{out}, instruction);
  out.scalars(program.prepare_inputs);
  out.scalar<uint8_t>(!program.prepare.empty());
  if (program.prepare.empty()) return;
  // Its constants stand among the fields: they are few, and copied when they are read.
  const Program &prepare = program.prepare.front();
  write_fields(out, prepare);
  out.scalar<uint64_t>(prepare.constants.size());
  out.raw(prepare.constants.data(), prepare.constants.size());
}

// `whole`: not what prepares another.
void read_fields(ByteReader &in, Program &program, bool whole) {
  program.target = in.string();
  size_t inputs = in.count(kMinInput);
  for (size_t i = 0; i < inputs && in.ok(); ++i) {
    InputSpec input;
    input.name = in.string();
    input.dtype = read_dtype(in);
    in.scalars<int64_t>(input.dims);
    input.bytes = in.scalar<int64_t>();
    input.donatable = read_bool(in);
    input.stable = read_bool(in);
    program.inputs.push_back(std::move(input));
  }
  size_t outputs = in.count(kMinOutput);
  for (size_t i = 0; i < outputs && in.ok(); ++i) {
    OutputSpec output;
    output.name = in.string();
    output.dtype = read_dtype(in);
    in.scalars<int64_t>(output.dims);
    output.bytes = in.scalar<int64_t>();
    output.donated_input = in.scalar<int32_t>();
    output.alias_input = in.scalar<int32_t>();
    output.alias_output = in.scalar<int32_t>();
    program.outputs.push_back(std::move(output));
  }
  size_t buffers = in.count(kBufferBytes);
  program.buffers.reserve(buffers);
  for (size_t i = 0; i < buffers && in.ok(); ++i) {
    BufferEntry entry;
    entry.kind = static_cast<BufferKind>(in.scalar<uint8_t>());
    entry.index = in.scalar<int32_t>();
    entry.offset = in.scalar<int64_t>();
    entry.bytes = in.scalar<int64_t>();
    program.buffers.push_back(entry);
  }
  for (std::vector<std::string> *strings : {&program.symbols, &program.locations}) {
    size_t count = in.count(kMinString);
    for (size_t i = 0; i < count && in.ok(); ++i) strings->push_back(in.string());
  }
  for (int64_t *value :
       {&program.arena_bytes, &program.state_bytes, &program.thread_scratch_bytes, &program.peak_bytes, &program.live_bytes_bound})
    *value = in.scalar<int64_t>();
  size_t instructions = in.count(kMinInstruction);
  for (size_t i = 0; i < instructions && in.ok(); ++i) program.instructions.push_back(read_instruction(in));
  in.scalars<int32_t>(program.prepare_inputs);
  if (!read_bool(in)) return;
  if (!whole) return in.fail();
  Program prepare;
  read_fields(in, prepare, /*whole=*/false);
  std::span<const std::byte> constants = in.raw(in.count(1));
  prepare.constants.assign(constants.begin(), constants.end());
  program.prepare.push_back(std::move(prepare));
}

} // namespace

absl::StatusOr<std::string> serialize(const Program &program) {
  if (absl::Status status = validate(program); !status.ok()) return status;
  ByteWriter out;
  out.raw(kMagic, sizeof(kMagic));
  out.scalar(kProgramVersion);
  out.scalar<uint32_t>(0);
  out.scalar<uint64_t>(0); // size and checksum, filled in below
  out.scalar<uint64_t>(0);
  write_fields(out, program);
  out.scalar<uint64_t>(program.constants.size());
  out.pad(kBufferAlignment);
  out.raw(program.constants.data(), program.constants.size());
  uint64_t size = out.size();
  uint64_t sum = checksum(std::as_bytes(std::span(out.data() + kHeaderBytes, out.size() - kHeaderBytes)));
  out.overwrite(16, &size, sizeof(size));
  out.overwrite(24, &sum, sizeof(sum));
  return out.take();
}

absl::StatusOr<Program> deserialize(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  std::span<const std::byte> magic = in.raw(sizeof(kMagic));
  if (magic.empty() || std::memcmp(magic.data(), kMagic, sizeof(kMagic)) != 0) return absl::DataLossError("not a Weft program");
  uint32_t version = in.scalar<uint32_t>();
  uint32_t zero = in.scalar<uint32_t>();
  uint64_t size = in.scalar<uint64_t>();
  uint64_t sum = in.scalar<uint64_t>();
  if (!in.ok()) return absl::DataLossError("Weft program is cut off in its header");
  if (version != kProgramVersion)
    return absl::FailedPreconditionError(absl::StrCat("Weft program of version ", version, "; this build reads version ", kProgramVersion));
  if (size != bytes.size())
    return absl::DataLossError(absl::StrCat("Weft program of ", size, " bytes is cut off or altered: there are ", bytes.size()));
  if (zero != 0 || sum != checksum(bytes.subspan(kHeaderBytes)))
    return absl::DataLossError("Weft program is altered: its checksum differs");
  Program program;
  read_fields(in, program, /*whole=*/true);
  size_t constants = in.count(1);
  in.align(kBufferAlignment);
  std::span<const std::byte> data = in.raw(constants);
  if (!in.ok() || in.remaining() != 0) return absl::DataLossError("Weft program is malformed");
  program.constants.assign(data.begin(), data.end());
  if (absl::Status status = validate(program); !status.ok()) return absl::DataLossError(status.message());
  return program;
}

} // namespace weft::runtime
