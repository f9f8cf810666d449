#include "runtime/executable/sized_programs.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "runtime/core/byte_stream.h"
#include "runtime/core/status.h"

namespace weft::runtime {
namespace {

constexpr char kMagic[8] = {'W', 'E', 'F', 'T', 'S', 'I', 'Z', 'E'};
// The least bytes of a part: its range, and the lengths of its table and its program.
constexpr size_t kLeastPartBytes = 4 * sizeof(int64_t);

template <typename Specs> bool are_alike(const Specs &a, const Specs &b) {
  return std::ranges::equal(a, b, [](const auto &x, const auto &y) {
    return x.name == y.name && x.dtype == y.dtype && x.dims.size() == y.dims.size();
  });
}

absl::Status validate(const SizedPrograms &programs) {
  auto invalid = [](const char *what) {
    return absl::InvalidArgumentError(absl::StrCat("a program for a range of sizes ", what));
  };
  if (programs.parts.empty() || (!programs.varies() && programs.parts.size() > 1))
    return invalid("has no part, or several without a size");
  const SizedPrograms::Part *before = nullptr;
  for (const SizedPrograms::Part &part : programs.parts) {
    WEFT_RETURN_IF_ERROR(runtime::validate(part.sizes, part.program));
    if (!programs.varies())
      return part.sizes.entries.empty() ? absl::OkStatus() : invalid("has no name for its size");
    if (part.low < 1 || part.low > part.high || (before && part.low - 1 != before->high))
      return invalid("has parts that do not follow each other");
    if (part.low < part.high
            ? part.sizes.names != std::vector<std::string>{programs.name}
            : part.sizes.names.size() > 1 ||
                  (!part.sizes.names.empty() && part.sizes.names[0] != programs.name))
      return invalid("has a part with another size than its own");
    if (before && (!are_alike(before->program.inputs, part.program.inputs) ||
                   !are_alike(before->program.outputs, part.program.outputs)))
      return invalid("has parts with different inputs or outputs");
    before = &part;
  }
  return absl::OkStatus();
}

} // namespace

const SizedPrograms::Part *SizedPrograms::part_of(int64_t size) const {
  if (!varies())
    return &parts.front();
  auto part = std::ranges::find_if(
      parts, [&](const Part &each) { return size >= each.low && size <= each.high; });
  return part == parts.end() ? nullptr : &*part;
}

absl::StatusOr<Program> SizedPrograms::at(int64_t size) const {
  const Part *part = part_of(size);
  if (!part)
    return absl::OutOfRangeError(absl::StrCat(
        "a ", name, " of ", size, " is out of range; it must be from ", low(), " to ", high()));
  if (!varies() || part->sizes.entries.empty())
    return part->program;
  return at_sizes(part->program, part->sizes, {{name, size}});
}

absl::StatusOr<std::string> serialize(const SizedPrograms &programs) {
  WEFT_RETURN_IF_ERROR(validate(programs));
  if (!programs.varies())
    return serialize(programs.parts.front().program);
  ByteWriter out;
  out.raw(kMagic, sizeof kMagic);
  out.scalar(kProgramVersion);
  out.string(programs.name);
  out.scalar<uint64_t>(programs.parts.size());
  for (const SizedPrograms::Part &part : programs.parts) {
    WEFT_ASSIGN_OR_RETURN(std::string program, serialize(part.program));
    out.scalar(part.low);
    out.scalar(part.high);
    out.string(serialize(part.sizes));
    out.string(program);
  }
  return out.take();
}

absl::StatusOr<SizedPrograms> deserialize_sized(std::span<const std::byte> bytes) {
  SizedPrograms programs;
  if (bytes.size() < sizeof kMagic || std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0) {
    WEFT_ASSIGN_OR_RETURN(programs.parts.emplace_back().program, deserialize(bytes));
    return programs;
  }
  ByteReader in(bytes.subspan(sizeof kMagic));
  if (uint32_t version = in.scalar<uint32_t>(); version != kProgramVersion)
    return absl::FailedPreconditionError(absl::StrCat(
        "programs of version ", version, "; this build reads version ", kProgramVersion));
  programs.name = in.string();
  size_t count = in.count(kLeastPartBytes);
  for (size_t i = 0; i < count; ++i) {
    SizedPrograms::Part &part = programs.parts.emplace_back();
    part.low = in.scalar<int64_t>();
    part.high = in.scalar<int64_t>();
    std::string sizes = in.string(), program = in.string();
    if (!in.ok())
      break;
    WEFT_ASSIGN_OR_RETURN(part.program, deserialize(std::as_bytes(std::span(program))));
    WEFT_ASSIGN_OR_RETURN(part.sizes,
                          deserialize_sizes(std::as_bytes(std::span(sizes)), part.program));
  }
  if (!in.ok() || in.remaining() != 0)
    return absl::DataLossError("programs for a range of sizes are malformed");
  if (absl::Status status = validate(programs); !status.ok())
    return absl::DataLossError(status.message());
  return programs;
}

std::string range_text(DType dtype, std::span<const int64_t> least, std::span<const int64_t> dims) {
  std::string text = absl::StrCat(name(dtype), "[");
  for (size_t i = 0; i < dims.size(); ++i)
    absl::StrAppend(&text, i == 0 ? "" : ", ",
                    least[i] == dims[i] ? "" : absl::StrCat(least[i], ".."), dims[i]);
  return text + "]";
}

} // namespace weft::runtime
