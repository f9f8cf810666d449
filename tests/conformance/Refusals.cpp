#include "tests/conformance/Refusals.h"

#include <cstdlib>

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/MemoryBuffer.h"

namespace weft::tests {

static std::vector<std::string> words(llvm::StringRef list) {
  llvm::SmallVector<llvm::StringRef> parts;
  list.split(parts, ',');
  std::vector<std::string> words;
  for (llvm::StringRef part : parts)
    words.push_back(part.trim().str());
  return words;
}

absl::StatusOr<Refusals> Refusals::parse(llvm::StringRef text,
                                         const std::vector<std::string> &ops) {
  Refusals table;
  llvm::SmallVector<llvm::StringRef> lines;
  text.split(lines, '\n');
  for (size_t i = 0; i < lines.size(); ++i) {
    auto wrong = [&](const std::string &what) {
      return absl::InvalidArgumentError("line " + std::to_string(i + 1) + ": " + what);
    };
    llvm::StringRef line = lines[i].split('#').first.trim();
    if (line.empty())
      continue;
    llvm::SmallVector<llvm::StringRef> columns;
    line.split(columns, '|', /*MaxSplit=*/3);
    if (columns.size() != 4)
      return wrong("expected VARIANT, ... | OP, ... | DTYPE, ... | REASON");
    std::string reason = columns[3].trim().str();
    if (reason.empty())
      return wrong("a refusal has a reason");
    std::vector<DType> dtypes;
    for (const std::string &word : words(columns[2])) {
      size_t before = dtypes.size();
      for (const DTypeInfo &info : kDTypes)
        if (word == "*" || word == info.name)
          dtypes.push_back(info.dtype);
      if (dtypes.size() == before)
        return wrong("there is no dtype '" + word + "'");
    }
    llvm::StringRef list = columns[1].trim();
    bool except = list.consume_front("* except ");
    std::vector<std::string> named = list == "*" ? std::vector<std::string>() : words(list);
    for (const std::string &op : named)
      if (!llvm::is_contained(ops, "weft." + op))
        return wrong("there is no op '" + op + "'");
    for (const std::string &full : ops) {
      std::string op = full.substr(5);
      if (list != "*" && llvm::is_contained(named, op) == except)
        continue;
      for (const std::string &variant : words(columns[0]))
        for (DType dtype : dtypes)
          if (!table.reasons_.try_emplace({variant, op, dtype}, reason).second)
            return wrong(variant + ", " + op + " and " + name(dtype) + " are there twice");
    }
  }
  return table;
}

absl::StatusOr<Refusals> Refusals::fromEnvironment(const std::vector<std::string> &ops) {
  const char *path = std::getenv("WEFT_REFUSALS");
  if (!path)
    return Refusals();
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!file)
    return absl::NotFoundError(std::string("WEFT_REFUSALS: cannot read ") + path);
  absl::StatusOr<Refusals> table = parse((*file)->getBuffer(), ops);
  if (!table.ok())
    return absl::InvalidArgumentError(std::string(path) + ", " +
                                      std::string(table.status().message()));
  return table;
}

const std::string *Refusals::find(const std::string &variant, const std::string &op,
                                  DType dtype) const {
  auto found = reasons_.find({variant, op, dtype});
  return found == reasons_.end() ? nullptr : &found->second;
}

} // namespace weft::tests
