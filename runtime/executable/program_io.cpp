// Programs as bytes: a fixed header, the fields in order, padding, the constants.
#include <concepts>
#include <cstring>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "runtime/core/byte_stream.h"
#include "runtime/core/status.h"
#include "runtime/executable/program.h"
#include "runtime/executable/size_table.h"

namespace weft::runtime {
namespace {

constexpr char kMagic[8] = {'W', 'E', 'F', 'T', 'P', 'L', 'A', 'N'};
// magic, version, zero, size of the whole, checksum of all that follows the header
constexpr size_t kHeaderBytes = 8 + 4 + 4 + 8 + 8;

// Struct, const or not: one list of fields serves writing and reading.
template <class Given, class Struct>
concept Is = std::same_as<std::remove_const_t<Given>, Struct>;

void fields(auto &file, Is<IndexCheck> auto &check) {
  file(check.op, check.operand, check.dtype, check.lower, check.upper, check.ignores, check.ignored,
       check.location);
}
void fields(auto &file, Is<Launch> auto &launch) {
  file(launch.kernel, launch.finish, launch.operands, launch.partials, launch.count, launch.grain,
       launch.serial, launch.location, launch.checks, launch.lines, launch.sizes);
}
void fields(auto &file, Is<Config::value_type> auto &entry) {
  file(entry.first, entry.second);
}
void fields(auto &file, Is<TensorRef> auto &operand) {
  file(operand.buffer, operand.offset, operand.dtype, operand.dims, operand.strides);
}
void fields(auto &file, Is<LibraryCall> auto &call) {
  file(call.entry, call.config, call.operands, call.inputs, call.scratch, call.location,
       call.lines);
}
void fields(auto &file, Is<Copy> auto &copy) {
  file(copy.source, copy.target, copy.bytes, copy.location);
}
void fields(auto &file, Is<Fill> auto &fill) {
  file(fill.target, fill.pattern, fill.width, fill.bytes, fill.location);
}
void fields(auto &file, Is<KernelNote> auto &note) {
  file(note.types, note.flops_of_piece, note.bytes_of_piece, note.fixed_bytes);
}
void fields(auto &file, Is<PeakHolder> auto &holder) {
  file(holder.bytes, holder.what, holder.line, holder.module);
}
void fields(auto &file, Is<MemoryReport> auto &memory) {
  file(memory.peak_holders, memory.live_bytes);
}
void fields(auto &file, Is<InputSpec> auto &input) {
  file(input.name, input.dtype, input.dims, input.bytes, input.donatable, input.stable);
}
void fields(auto &file, Is<OutputSpec> auto &output) {
  file(output.name, output.dtype, output.dims, output.bytes, output.donated_input,
       output.alias_input, output.alias_output);
}
void fields(auto &file, Is<BufferEntry> auto &entry) {
  file(entry.kind, entry.index, entry.offset, entry.bytes);
}
void fields(auto &file, Is<SizeTable::Entry> auto &entry) {
  file(entry.place, entry.index, entry.operand, entry.dim, entry.value.coefficient,
       entry.value.names, entry.largest);
}
void fields(auto &file, Is<SizeTable> auto &table) {
  file(table.names, table.entries);
}
// All fields but the constants and `prepare`, which are written apart.
void fields(auto &file, Is<Program> auto &program) {
  file(program.target, program.inputs, program.outputs, program.buffers, program.symbols,
       program.notes, program.locations, program.modules, program.arena_bytes, program.state_bytes,
       program.thread_scratch_bytes, program.peak_bytes, program.live_bytes_bound,
       program.instructions, program.prepare_inputs, program.recipe, program.memory);
}

class Writer {
public:
  explicit Writer(ByteWriter &out) : out_(out) {}
  template <class... T> void operator()(const T &...values) {
    (write(values), ...);
  }

private:
  template <class T> void write(const T &value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>)
      out_.scalar(value);
    else
      fields(*this, value);
  }
  void write(bool value) {
    out_.scalar<uint8_t>(value);
  }
  void write(const std::string &text) {
    out_.string(text);
  }
  template <class T> void write(const std::vector<T> &items) {
    out_.scalar<uint64_t>(items.size());
    for (const T &item : items)
      write(item);
  }
  template <class... T> void write(const std::variant<T...> &value) {
    out_.scalar(static_cast<uint8_t>(value.index()));
    std::visit([&](const auto &held) { write(held); }, value);
  }

  ByteWriter &out_;
};

// The least bytes that an item takes in a file: those of an item whose strings and lists are empty.
// They bound counts before anything is allocated.
class LeastBytes {
public:
  template <class T> static size_t of() {
    T item{};
    LeastBytes bytes;
    bytes(item);
    return bytes.sum_;
  }
  template <class... T> void operator()(const T &...values) {
    (add(values), ...);
  }

private:
  template <class T> void add(const T &value) {
    if constexpr (std::is_same_v<T, bool>)
      sum_ += 1;
    else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>)
      sum_ += sizeof(T);
    else
      fields(*this, value);
  }
  void add(const std::string &) {
    sum_ += 8;
  }
  template <class T> void add(const std::vector<T> &) {
    sum_ += 8;
  }
  template <class... T> void add(const std::variant<T...> &) {
    sum_ += 1;
  }

  size_t sum_ = 0;
};

class Reader {
public:
  explicit Reader(ByteReader &in) : in_(in) {}
  template <class... T> void operator()(T &...values) {
    (read(values), ...);
  }

private:
  template <class T> void read(T &value) {
    if constexpr (std::is_arithmetic_v<T>)
      value = in_.scalar<T>();
    else
      fields(*this, value);
  }
  void read(bool &value) {
    uint8_t byte = in_.scalar<uint8_t>();
    if (byte > 1)
      in_.fail();
    value = byte == 1;
  }
  void read(DType &dtype) {
    uint8_t value = in_.scalar<uint8_t>();
    if (value >= std::size(kDTypes))
      return in_.fail();
    dtype = static_cast<DType>(value);
  }
  void read(SizeTable::Place &place) {
    uint8_t value = in_.scalar<uint8_t>();
    if (value > static_cast<uint8_t>(SizeTable::Place::kLaunchSize))
      return in_.fail();
    place = static_cast<SizeTable::Place>(value);
  }
  void read(BufferKind &kind) {
    kind = static_cast<BufferKind>(in_.scalar<uint8_t>());
  } // validate() refuses other numbers
  void read(std::string &text) {
    text = in_.string();
  }
  template <class T> void read(std::vector<T> &items) {
    static const size_t kLeast = LeastBytes::of<T>();
    size_t count = in_.count(kLeast);
    // A struct may be larger in memory than its least bytes in the file: room for such structs is
    // made as they come.
    if (sizeof(T) <= kLeast)
      items.reserve(count);
    for (size_t i = 0; i < count && in_.ok(); ++i)
      read(items.emplace_back());
  }
  template <class... T> void read(std::variant<T...> &value) {
    uint8_t alternative = in_.scalar<uint8_t>(), number = 0;
    bool known = ((number++ == alternative && (read(value.template emplace<T>()), true)) || ...);
    if (!known)
      in_.fail();
  }

  ByteReader &in_;
};

void write_program(ByteWriter &out, const Program &program) {
  Writer file(out);
  fields(file, program);
  out.scalar<uint8_t>(!program.prepare.empty());
  if (program.prepare.empty())
    return;
  // Its constants stand among the fields: they are few, and copied when they are read.
  const Program &prepare = program.prepare.front();
  write_program(out, prepare);
  out.scalar<uint64_t>(prepare.constants.size());
  out.raw(prepare.constants.data(), prepare.constants.size());
}

// whole: false for a program that prepares another one, which has no `prepare` of its own.
void read_program(ByteReader &in, Program &program, bool whole) {
  Reader file(in);
  fields(file, program);
  uint8_t prepares = in.scalar<uint8_t>();
  if (prepares == 0)
    return;
  if (prepares > 1 || !whole)
    return in.fail();
  Program prepare;
  read_program(in, prepare, /*whole=*/false);
  std::span<const std::byte> constants = in.raw(in.count(1));
  prepare.constants.assign(constants.begin(), constants.end());
  program.prepare.push_back(std::move(prepare));
}

} // namespace

absl::StatusOr<std::string> serialize(const Program &program) {
  WEFT_RETURN_IF_ERROR(validate(program));
  ByteWriter out;
  out.raw(kMagic, sizeof(kMagic));
  out.scalar(kProgramVersion);
  out.scalar<uint32_t>(0);
  out.scalar<uint64_t>(0); // size and checksum, filled in below
  out.scalar<uint64_t>(0);
  write_program(out, program);
  out.scalar<uint64_t>(program.constants.size());
  out.pad(kBufferAlignment);
  out.raw(program.constants.data(), program.constants.size());
  uint64_t size = out.size();
  uint64_t sum =
      checksum(std::as_bytes(std::span(out.data() + kHeaderBytes, out.size() - kHeaderBytes)));
  out.overwrite(16, &size, sizeof(size));
  out.overwrite(24, &sum, sizeof(sum));
  return out.take();
}

absl::StatusOr<Program> deserialize(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  std::span<const std::byte> magic = in.raw(sizeof(kMagic));
  if (magic.empty() || std::memcmp(magic.data(), kMagic, sizeof(kMagic)) != 0)
    return absl::DataLossError("not a Weft program");
  uint32_t version = in.scalar<uint32_t>();
  uint32_t zero = in.scalar<uint32_t>();
  uint64_t size = in.scalar<uint64_t>();
  uint64_t sum = in.scalar<uint64_t>();
  if (!in.ok())
    return absl::DataLossError("Weft program is cut off in its header");
  if (version != kProgramVersion)
    return absl::FailedPreconditionError(absl::StrCat(
        "Weft program of version ", version, "; this build reads version ", kProgramVersion));
  if (size != bytes.size())
    return absl::DataLossError(absl::StrCat(
        "Weft program of ", size, " bytes is cut off or altered: there are ", bytes.size()));
  if (zero != 0 || sum != checksum(bytes.subspan(kHeaderBytes)))
    return absl::DataLossError("Weft program is altered: its checksum differs");
  Program program;
  read_program(in, program, /*whole=*/true);
  size_t constants = in.count(1);
  in.align(kBufferAlignment);
  std::span<const std::byte> data = in.raw(constants);
  if (!in.ok() || in.remaining() != 0)
    return absl::DataLossError("Weft program is malformed");
  program.constants.assign(data.begin(), data.end());
  if (absl::Status status = validate(program); !status.ok())
    return absl::DataLossError(status.message());
  return program;
}

std::string serialize(const SizeTable &table) {
  ByteWriter out;
  Writer file(out);
  fields(file, table);
  return out.take();
}

absl::StatusOr<SizeTable> deserialize_sizes(std::span<const std::byte> bytes,
                                            const Program &program) {
  ByteReader in(bytes);
  Reader file(in);
  SizeTable table;
  fields(file, table);
  if (!in.ok() || in.remaining() != 0)
    return absl::DataLossError("a table of sizes is malformed");
  if (absl::Status status = validate(table, program); !status.ok())
    return absl::DataLossError(status.message());
  return table;
}

} // namespace weft::runtime
