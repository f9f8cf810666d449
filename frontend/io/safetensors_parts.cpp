// One rank begins the file: it makes it as long as it will be, writes the header and gives it its
// name in the end. All write into it, in between, at the places that tensors have in the whole
// file. So the file is, bit for bit, the one that one process writes of whole tensors, and nothing
// knows of a mesh that reads it.
//
// Weakness: a tensor that is cut along its last dim is written in pieces of its rows.
#include "frontend/io/safetensors_parts.h"

#include <functional>
#include <optional>

#include "frontend/io/status.h"
#include "frontend/sharding/parts.h"
#include "runtime/core/status.h"
#include "runtime/core/thrown.h"
#include "runtime/io/safetensors.h"
#include "weft/eval.h"

namespace weft::io {
namespace {

// What ranks say of a step, in front of a text.
constexpr char kDone = '+', kFailed = '-';

// Writes the piece's elements, row-major at `data`, where they stand in the tensor at `begin`.
absl::Status write_piece(runtime::NewFile &file, int64_t begin, const Shape &dims, int64_t element,
                         const recorder::Piece &piece, const std::byte *data) {
  // Dims from `inner` on lie together in the file: all of them are whole but the first.
  size_t inner = dims.size();
  int64_t run = element, stride = element; // bytes: of the piece, and of the tensor
  bool is_whole = true;
  while (inner > 0 && is_whole) {
    --inner;
    run *= piece.sizes[inner];
    stride *= dims[inner];
    is_whole = piece.sizes[inner] == dims[inner];
  }
  if (run == 0)
    return absl::OkStatus();
  if (inner < dims.size())
    begin += piece.starts[inner] * (stride / dims[inner]);
  std::vector<int64_t> strides(inner), at(inner, 0);
  for (size_t dim = inner; dim-- > 0; stride *= dims[dim]) {
    if (piece.sizes[dim] == 0)
      return absl::OkStatus();
    strides[dim] = stride;
    begin += piece.starts[dim] * stride;
  }
  while (true) {
    WEFT_RETURN_IF_ERROR(file.write(begin, {data, static_cast<size_t>(run)}));
    data += run;
    size_t dim = inner;
    for (; dim > 0; --dim) {
      begin += strides[dim - 1];
      if (++at[dim - 1] < piece.sizes[dim - 1])
        break;
      begin -= at[dim - 1] * strides[dim - 1];
      at[dim - 1] = 0;
    }
    if (dim == 0)
      return absl::OkStatus();
  }
}

} // namespace

void save_parts(const std::string &path, const std::vector<std::pair<std::string, Tensor>> &tensors,
                const std::map<std::string, std::string> &metadata, const recorder::MeshState &mesh,
                Location location) {
  location = CallerScope::resolve(location);
  std::vector<runtime::ArrayView> views;
  for (const auto &[name, tensor] : tensors)
    views.push_back({name, tensor.dtype(), tensor.shape(), {}});
  auto layout = runtime::layout_safetensors(path, views, metadata);
  // Ranks that save something else would write over each other: all compare the whole header.
  const std::string call = "save_safetensors('" + path + "') of " + std::to_string(tensors.size()) +
                           " tensors " +
                           (layout.ok() ? layout->start.substr(sizeof(uint64_t)) : "");
  // A step that all ranks have done, or none goes on. Gives what the mesh's rank 0 said.
  auto together = [&](const std::function<absl::StatusOr<std::string>()> &step) {
    std::exception_ptr own;
    std::string text;
    try {
      absl::StatusOr<std::string> done = step();
      check(done.status(), location);
      text = kDone + *done;
    } catch (const std::exception &error) {
      own = std::current_exception();
      text = kFailed + std::string(error.what());
    } catch (...) { // of a plugin
      own = std::current_exception();
      text = kFailed + runtime::thrown_text();
    }
    std::vector<std::string> said;
    try {
      said = recorder::say(mesh, "save_safetensors", call, text, location);
    } catch (const Error &) {
      if (!own)
        throw;
    }
    if (own)
      std::rethrow_exception(own);
    for (size_t rank = 0; rank < said.size(); ++rank)
      if (said[rank][0] == kFailed)
        throw Error(ErrorKind::kFile,
                    "save_safetensors: '" + path + "' stays as it is, since rank " +
                        std::to_string(rank) + " of the mesh failed: " + said[rank].substr(1),
                    location);
    return said[0].substr(1);
  };

  std::vector<Tensor> parts;
  std::vector<recorder::Piece> pieces;
  std::optional<runtime::NewFile> file;
  const bool is_first = recorder::rank_of(mesh) == 0;
  const std::string mark = together([&]() -> absl::StatusOr<std::string> {
    WEFT_RETURN_IF_ERROR(layout.status());
    for (const auto &[name, tensor] : tensors) {
      pieces.push_back(recorder::piece_of(tensor, mesh));
      parts.push_back(recorder::own_part(tensor, location));
    }
    weft::eval(parts); // one program for all
    if (!is_first)
      return "";
    WEFT_ASSIGN_OR_RETURN(runtime::NewFile begun, runtime::NewFile::begin(path));
    file.emplace(std::move(begun));
    WEFT_RETURN_IF_ERROR(file->reserve(layout->bytes));
    WEFT_RETURN_IF_ERROR(file->write(0, std::as_bytes(std::span(layout->start))));
    return file->mark();
  });
  together([&]() -> absl::StatusOr<std::string> {
    if (!is_first) {
      absl::StatusOr<runtime::NewFile> joined = runtime::NewFile::join(path, mark);
      if (absl::IsNotFound(joined.status()))
        return absl::NotFoundError("cannot write '" + path +
                                   "': the file that rank 0 of the mesh began is not there; all "
                                   "ranks write one file, in a folder that all of them have");
      WEFT_RETURN_IF_ERROR(joined.status());
      file.emplace(*std::move(joined));
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      if (pieces[i].copy != static_cast<int64_t>(i) % pieces[i].copies)
        continue;
      WEFT_RETURN_IF_ERROR(
          write_piece(*file, layout->at[i], tensors[i].second.shape(), byte_size(parts[i].dtype()),
                      pieces[i], static_cast<const std::byte *>(parts[i].data_bytes(location))));
    }
    WEFT_RETURN_IF_ERROR(file->close());
    return "";
  });
  together([&]() -> absl::StatusOr<std::string> {
    if (is_first)
      WEFT_RETURN_IF_ERROR(file->finish());
    return "";
  });
}

} // namespace weft::io
