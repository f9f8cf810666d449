#include "dialects/weft/ir/BytecodeFile.h"

#include <span>

#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/IR/Operation.h"
#include "runtime/core/byte_stream.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

namespace weft::ir {

using namespace mlir;

// The producer is "Weft, checksum 0123456789abcdef"; the sum is of the file with zeros in its
// place.
static constexpr StringLiteral kMagic = "ML\xefR", kProducer = "Weft, checksum ";
static constexpr size_t kDigits = 16;
// Behind the magic number stands the format's version, as a number of one to nine bytes.
static constexpr size_t kMostVersionBytes = 9;

static size_t findDigits(StringRef bytes) {
  size_t at = bytes.substr(0, kMagic.size() + kMostVersionBytes + kProducer.size())
                  .find(kProducer, kMagic.size());
  return at == llvm::StringRef::npos || at + kProducer.size() + kDigits > bytes.size()
             ? llvm::StringRef::npos
             : at + kProducer.size();
}

static std::string sumOf(StringRef bytes, size_t digits) {
  const std::string zeros(kDigits, '0');
  uint64_t sum = runtime::checksum(std::as_bytes(std::span(bytes.take_front(digits))));
  sum = runtime::checksum(std::as_bytes(std::span(zeros)), sum);
  sum = runtime::checksum(std::as_bytes(std::span(bytes.drop_front(digits + kDigits))), sum);
  return llvm::utohexstr(sum, /*LowerCase=*/true, kDigits);
}

std::string writeBytecode(Operation *module) {
  std::string bytes;
  llvm::raw_string_ostream stream(bytes);
  const std::string producer =
      kProducer.str() + std::string(kDigits, '0'); // the configuration refers to it
  BytecodeWriterConfig config(producer);
  if (failed(writeBytecodeToFile(module, stream, config)))
    return "";
  size_t digits = findDigits(bytes);
  if (digits == llvm::StringRef::npos)
    return ""; // a format of MLIR's with its producer elsewhere
  bytes.replace(digits, kDigits, sumOf(bytes, digits));
  return bytes;
}

BytecodeState inspectBytecode(StringRef bytes) {
  if (!bytes.starts_with(kMagic))
    return BytecodeState::None;
  size_t digits = findDigits(bytes);
  if (digits == llvm::StringRef::npos)
    return BytecodeState::Foreign;
  return bytes.substr(digits, kDigits) == sumOf(bytes, digits) ? BytecodeState::Intact
                                                               : BytecodeState::Damaged;
}

} // namespace weft::ir
