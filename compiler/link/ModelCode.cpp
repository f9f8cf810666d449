#include "compiler/link/ModelCode.h"

#include "compiler/backend/CompileReport.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"
#include "runtime/aot/weft_model.h"
#include "runtime/core/status.h"
#include "runtime/io/array.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

namespace weft::compiler {

using namespace mlir;

namespace {

// Writes constant globals, each with a body that builds its value.
class Globals {
public:
  explicit Globals(ModuleOp module)
      : builder_(OpBuilder::atBlockEnd(module.getBody())), loc_(module.getLoc()), module_(module),
        pointer_(LLVM::LLVMPointerType::get(module.getContext())) {}

  // The bytes, with a zero after them where `terminated`.
  std::string bytes(const std::string &name, std::string value, uint64_t alignment,
                    bool terminated) {
    if (terminated)
      value.push_back('\0');
    auto type = LLVM::LLVMArrayType::get(builder_.getI8Type(), value.size());
    LLVM::GlobalOp::create(builder_, loc_, type, /*isConstant=*/true, LLVM::Linkage::Internal, name,
                           builder_.getStringAttr(value), alignment);
    return name;
  }

  // Built in rows, since each element that is put into a constant makes another constant of all of
  // it; the last row is filled up with null.
  std::string pointers(const std::string &name, ArrayRef<std::string> symbols) {
    constexpr size_t kRow = 64;
    auto row = LLVM::LLVMArrayType::get(pointer_, kRow);
    auto type = LLVM::LLVMArrayType::get(row, llvm::divideCeil(symbols.size(), kRow));
    define(name, type, LLVM::Linkage::Internal, [&](OpBuilder &body) -> Value {
      Value value = LLVM::UndefOp::create(body, loc_, type);
      for (size_t first = 0; first < symbols.size(); first += kRow) {
        Value part = LLVM::ZeroOp::create(body, loc_, row);
        for (size_t i = 0; i < std::min(kRow, symbols.size() - first); ++i)
          part = insert(body, part,
                        LLVM::AddressOfOp::create(body, loc_, pointer_, symbols[first + i]), i);
        value = insert(body, value, part, first / kRow);
      }
      return value;
    });
    return name;
  }

  template <typename Int> std::string integers(const std::string &name, ArrayRef<Int> values) {
    Type element = builder_.getIntegerType(8 * sizeof(Int));
    LLVM::GlobalOp::create(
        builder_, loc_, LLVM::LLVMArrayType::get(element, values.size()), /*isConstant=*/true,
        LLVM::Linkage::Internal, name,
        DenseElementsAttr::get(RankedTensorType::get({int64_t(values.size())}, element), values));
    return name;
  }

  // A symbol's address, or an integer of `width` bits. An empty symbol of width 0 is a null
  // pointer.
  struct Field {
    std::string symbol;
    unsigned width = 0;
    uint64_t value = 0;
  };
  std::string structure(const std::string &name, ArrayRef<Field> fields,
                        LLVM::Linkage linkage = LLVM::Linkage::Internal) {
    SmallVector<Type> types;
    for (const Field &field : fields)
      types.push_back(field.width ? Type(builder_.getIntegerType(field.width)) : Type(pointer_));
    auto type = LLVM::LLVMStructType::getLiteral(builder_.getContext(), types);
    define(name, type, linkage, [&](OpBuilder &body) -> Value {
      Value value = LLVM::UndefOp::create(body, loc_, type);
      for (auto [i, field] : llvm::enumerate(fields)) {
        Value element;
        if (field.width)
          element = LLVM::ConstantOp::create(
              body, loc_, types[i], body.getIntegerAttr(types[i], APInt(field.width, field.value)));
        else if (field.symbol.empty())
          element = LLVM::ZeroOp::create(body, loc_, pointer_);
        else
          element = LLVM::AddressOfOp::create(body, loc_, pointer_, field.symbol);
        value = insert(body, value, element, i);
      }
      return value;
    });
    return name;
  }

  void pointer(const std::string &name, const std::string &symbol) {
    define(name, pointer_, LLVM::Linkage::External, [&](OpBuilder &body) -> Value {
      return LLVM::AddressOfOp::create(body, loc_, pointer_, symbol);
    });
  }

  void declareFunction(const std::string &name) {
    if (module_.lookupSymbol(name))
      return;
    LLVM::LLVMFuncOp::create(builder_, loc_, name,
                             LLVM::LLVMFunctionType::get(pointer_, {pointer_}));
  }

private:
  // build makes the value in the global's body.
  template <typename Build>
  void define(const std::string &name, Type type, LLVM::Linkage linkage, Build build) {
    auto global = LLVM::GlobalOp::create(builder_, loc_, type, /*isConstant=*/true, linkage, name,
                                         Attribute());
    OpBuilder body = OpBuilder::atBlockEnd(&global.getInitializerRegion().emplaceBlock());
    LLVM::ReturnOp::create(body, loc_, build(body));
  }
  Value insert(OpBuilder &body, Value into, Value element, size_t place) {
    return LLVM::InsertValueOp::create(body, loc_, into, element,
                                       ArrayRef<int64_t>{int64_t(place)});
  }

  OpBuilder builder_;
  Location loc_;
  ModuleOp module_;
  LLVM::LLVMPointerType pointer_;
};

using Field = Globals::Field;

// The globals of one model.
class ModelGlobals {
public:
  ModelGlobals(ModuleOp module, const ModelCode &code)
      : globals_(module), code_(code), prefix_("weft_" + code.name) {}

  absl::Status add() {
    std::vector<std::string> kernels, names;
    for (const std::vector<EntryCode> &level : code_.levels)
      for (const EntryCode &entry : level)
        for (const runtime::SizedPrograms::Part &part : entry.programs.parts) {
          if (!code_.executableMaker.empty())
            continue;
          llvm::append_range(kernels, part.program.symbols);
          for (const runtime::Program &prepare : part.program.prepare)
            llvm::append_range(kernels, prepare.symbols);
        }
    for (const std::string &kernel : kernels)
      names.push_back(text(kernel));
    for (const std::string &finder : code_.libraryFinders)
      globals_.declareFunction(finder);
    if (!code_.executableMaker.empty())
      globals_.declareFunction(code_.executableMaker);
    std::string name = text(code_.name), nameTable = table("_kernel_names", names),
                kernelTable = table("_kernels", kernels),
                libraryTable = table("_libraries", code_.libraryFinders);
    std::vector<std::string> held, levels;
    for (const HeldTensor &tensor : code_.held)
      held.push_back(heldCode(tensor));
    for (const std::vector<EntryCode> &level : code_.levels) {
      std::vector<std::string> entries;
      for (const EntryCode &entry : level) {
        WEFT_ASSIGN_OR_RETURN(std::string program, runtime::serialize(entry.programs));
        entries.push_back(entryCode(entry, std::move(program)));
      }
      levels.push_back(globals_.pointers(fresh(), entries));
    }
    std::string heldTable = table("_held", held), levelTable = table("_levels", levels);
    // In the order of weft_model_code.
    globals_.structure("weft_model_" + code_.name,
                       {{"", 32, sizeof(weft_model_code)},
                        {"", 32, WEFT_MODEL_VERSION},
                        {"", 32, WEFT_ABI_VERSION},
                        {"", 32, kernels.size()},
                        {name},
                        {nameTable},
                        {kernelTable},
                        {"", 64, code_.libraryFinders.size()},
                        {libraryTable},
                        {"", 64, code_.held.size()},
                        {heldTable},
                        {"", 64, code_.levels.front().size()},
                        {"", 64, code_.levels.size()},
                        {levelTable},
                        {code_.executableMaker}},
                       LLVM::Linkage::External);
    if (code_.isMain)
      globals_.pointer("weft_main_model", "weft_model_" + code_.name);
    return absl::OkStatus();
  }

private:
  // In the order of weft_held_code.
  std::string heldCode(const HeldTensor &tensor) {
    std::string value;
    if (tensor.value)
      value = globals_.bytes(fresh(), std::string(tensor.value->begin(), tensor.value->end()),
                             runtime::kBufferAlignment, true);
    return globals_.structure(
        fresh(),
        {{text(tensor.name)},
         {tensor.dims.empty() ? std::string() : globals_.integers<int64_t>(fresh(), tensor.dims)},
         {"", 32, tensor.dims.size()},
         {"", 32, uint64_t(tensor.dtype)},
         {"", 64, tensor.isState},
         {value},
         {"", 64, uint64_t(runtime::array_bytes(tensor.dtype, tensor.dims))}});
  }

  // In the order of weft_entry_code.
  std::string entryCode(const EntryCode &entry, std::string program) {
    uint64_t size = program.size();
    std::string bytes =
        globals_.bytes(fresh(), std::move(program), runtime::kBufferAlignment, false);
    std::string device;
    if (!code_.executableMaker.empty())
      device = globals_.bytes(fresh(), entry.deviceCode, runtime::kBufferAlignment, false);
    return globals_.structure(fresh(), {{text(entry.name)},
                                        {bytes},
                                        {"", 64, size},
                                        {"", 64, entry.reads.size()},
                                        {places(entry.reads)},
                                        {"", 64, entry.writes.size()},
                                        {places(entry.writes)},
                                        {device},
                                        {"", 64, entry.deviceCode.size()}});
  }

  std::string places(ArrayRef<std::pair<int32_t, int32_t>> places) {
    std::vector<int32_t> values;
    for (auto [place, held] : places)
      values.insert(values.end(), {place, held});
    return values.empty() ? std::string() : globals_.integers<int32_t>(fresh(), values);
  }
  std::string table(const char *suffix, ArrayRef<std::string> symbols) {
    return symbols.empty() ? std::string() : globals_.pointers(prefix_ + suffix, symbols);
  }
  std::string text(const std::string &value) {
    return globals_.bytes(fresh(), value, 1, true);
  }
  std::string fresh() {
    return prefix_ + "_data_" + std::to_string(count_++);
  }

  Globals globals_;
  const ModelCode &code_;
  std::string prefix_;
  unsigned count_ = 0;
};

// As a comment of one line may have it.
std::string inLine(StringRef text) {
  std::string result;
  llvm::raw_string_ostream stream(result);
  for (char c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      stream << "\\x" << llvm::toHex(StringRef(&c, 1));
    else
      stream << c;
  return result;
}

} // namespace

absl::Status addModelCode(ModuleOp module, const ModelCode &code) {
  for (auto function : module.getOps<LLVM::LLVMFuncOp>())
    if (!function.isExternal())
      function.setLinkage(LLVM::Linkage::Internal);
  return ModelGlobals(module, code).add();
}

std::string modelHeader(const ModelCode &code, StringRef linkedWith) {
  std::string text;
  llvm::raw_string_ostream out(text);
  std::string guard = StringRef(code.name).upper();
  out << "// Generated by weft-compile: the model '" << code.name
      << "'. How to run it: runtime/aot/weft_model.h.\n"
      << "// An object is linked with, in this order: " << inLine(linkedWith) << "\n"
      << "#ifndef WEFT_MODEL_" << guard << "_H\n#define WEFT_MODEL_" << guard
      << "_H\n\n#include \"runtime/aot/weft_model.h\"\n\n"
      << "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\nextern const weft_model_code weft_model_"
      << code.name << ";\n";
  for (const EntryCode &entry : code.levels.front()) {
    bool several = code.levels.front().size() > 1;
    std::string upper = guard;
    out << "\n";
    if (several) {
      upper += "_" + StringRef(entry.name).upper();
      out << "// entry '" << entry.name << "'\n";
    }
    const runtime::SizedPrograms &programs = entry.programs;
    const runtime::Program &program = programs.largest();
    absl::StatusOr<runtime::Program> smallest = runtime::Program();
    if (programs.varies()) {
      smallest = programs.at(programs.low()); // which was serialized, so that it is there
      std::string name = StringRef(programs.name).upper();
      out << "// The sizes of '" << programs.name << "', a leading dim: run it with "
          << "weft_model_run_sized(). Bytes and elements are those of the largest.\n"
          << "#define " << upper << "_" << name << "_MIN " << programs.low() << "\n"
          << "#define " << upper << "_" << name << "_MAX " << programs.high() << "\n";
    }
    // Those that the model holds are not the caller's.
    auto list = [&](const char *kind, const auto &specs, const auto &least,
                    ArrayRef<std::pair<int32_t, int32_t>> held) {
      std::string prefix = upper + "_" + StringRef(kind).upper();
      int64_t count = 0;
      for (auto [i, spec] : llvm::enumerate(specs)) {
        if (llvm::any_of(held, [&](auto place) { return place.first == int32_t(i); }))
          continue;
        out << "// " << kind << " " << count
            << (spec.name.empty() ? "" : " '" + inLine(spec.name) + "'") << ": "
            << runtime::range_text(spec.dtype, least[i].dims, spec.dims) << "\n";
        std::string name = "#define " + prefix + "_" + std::to_string(count++);
        out << name << "_BYTES " << spec.bytes << "\n"
            << name << "_ELEMENTS " << spec.bytes / byte_size(spec.dtype) << "\n";
      }
      out << "#define " << prefix << "S " << count << "\n";
    };
    const runtime::Program &least = programs.varies() && smallest.ok() ? *smallest : program;
    list("input", program.inputs, least.inputs, entry.reads);
    list("output", program.outputs, least.outputs, entry.writes);
  }
  out << "\n";
  for (const HeldTensor &tensor : code.held)
    if (tensor.isState || !tensor.value)
      out << "// " << (tensor.isState ? "state" : "weight") << " '" << inLine(tensor.name) << "'"
          << (tensor.value ? "" : ", read when the model is opened") << ": "
          << tensorText(tensor.dtype, tensor.dims) << "\n";
  out << "\n#ifdef __cplusplus\n}\n#endif\n#endif\n";
  return text;
}

std::string tensorText(DType dtype, ArrayRef<int64_t> dims) {
  std::string text = std::string(name(dtype)) + "[";
  llvm::raw_string_ostream stream(text);
  llvm::interleaveComma(dims, stream);
  return text + "]";
}

std::string cIdentifier(StringRef name) {
  std::string result;
  for (char c : name)
    result += llvm::isAlnum(c) ? c : '_';
  if (StringRef(result).trim('_').empty())
    return {};
  if (llvm::isDigit(result.front()))
    result.insert(result.begin(), '_');
  return result;
}

} // namespace weft::compiler
