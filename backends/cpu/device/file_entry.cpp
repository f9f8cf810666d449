#include "backends/cpu/device/file_entry.h"

#include <cstring>

#include "runtime/core/status.h"
#include "runtime/memory/value_file.h"

namespace weft::backends::cpu {
namespace {

using runtime::LibraryCall;
using runtime::LibraryCallState;
using runtime::ValueFile;

constexpr int64_t kTokenBytes = sizeof(ValueFile::Token);

// The bytes of the value, where the other operand is a token.
absl::StatusOr<int64_t> bytes_of(const LibraryCall &call, size_t value) {
  auto is_bytes = [](const runtime::TensorRef &operand) {
    return operand.dtype == DType::kInt8 && operand.dims.size() == 1;
  };
  if (call.operands.size() != 2 || !is_bytes(call.operands[0]) || !is_bytes(call.operands[1]) ||
      call.operands[1 - value].dims[0] != kTokenBytes)
    return absl::InvalidArgumentError("operands must be int8: a value, and a token of 16 bytes");
  return call.operands[value].dims[0];
}

class StoreState : public LibraryCallState {
public:
  explicit StoreState(std::unique_ptr<ValueFile> file) : file_(std::move(file)) {}
  absl::Status run(std::span<void *const> operands, void *) override {
    ValueFile::Token token = file_->token();
    std::memcpy(operands[1], &token, sizeof token);
    return file_->write(operands[0]);
  }

private:
  std::unique_ptr<ValueFile> file_;
};

class StoreEntry : public runtime::LibraryEntry {
public:
  std::string_view name() const override {
    return "weft.file.store";
  }
  absl::StatusOr<std::unique_ptr<LibraryCallState>> init(const LibraryCall &call,
                                                         int) const override {
    WEFT_ASSIGN_OR_RETURN(int64_t bytes, bytes_of(call, 0));
    WEFT_ASSIGN_OR_RETURN(std::unique_ptr<ValueFile> file,
                          ValueFile::make(bytes, runtime::memory_folder()));
    return std::make_unique<StoreState>(std::move(file));
  }
};

class LoadState : public LibraryCallState {
public:
  explicit LoadState(int64_t bytes) : bytes_(bytes) {}
  absl::Status run(std::span<void *const> operands, void *) override {
    ValueFile::Token token;
    std::memcpy(&token, operands[0], sizeof token);
    return ValueFile::read(token, operands[1], bytes_);
  }

private:
  int64_t bytes_;
};

class LoadEntry : public runtime::LibraryEntry {
public:
  std::string_view name() const override {
    return "weft.file.load";
  }
  absl::StatusOr<std::unique_ptr<LibraryCallState>> init(const LibraryCall &call,
                                                         int) const override {
    WEFT_ASSIGN_OR_RETURN(int64_t bytes, bytes_of(call, 1));
    return std::make_unique<LoadState>(bytes);
  }
};

} // namespace

const runtime::LibraryEntry &store_entry() {
  static const StoreEntry entry;
  return entry;
}
const runtime::LibraryEntry &load_entry() {
  static const LoadEntry entry;
  return entry;
}

} // namespace weft::backends::cpu
