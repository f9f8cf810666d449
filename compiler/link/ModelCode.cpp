#include "compiler/link/ModelCode.h"

#include "compiler/backend/CompileReport.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"
#include "runtime/aot/weft_model.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

namespace weft::compiler {
namespace {

namespace LLVM = mlir::LLVM;

// Writes constant globals, each with a body that builds its value.
class Globals {
public:
  explicit Globals(mlir::ModuleOp module)
      : builder_(mlir::OpBuilder::atBlockEnd(module.getBody())), loc_(module.getLoc()),
        module_(module), pointer_(LLVM::LLVMPointerType::get(module.getContext())) {}

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

  std::string pointers(const std::string &name, llvm::ArrayRef<std::string> symbols) {
    define(name, LLVM::LLVMArrayType::get(pointer_, symbols.size()), LLVM::Linkage::Internal,
           llvm::to_vector(llvm::map_range(
               symbols, [](const std::string &symbol) { return Field{symbol, 0, 0}; })));
    return name;
  }

  std::string integers(const std::string &name, llvm::ArrayRef<int32_t> values) {
    llvm::SmallVector<Field> fields;
    for (int32_t value : values)
      fields.push_back({"", 32, uint64_t(uint32_t(value))});
    define(name, LLVM::LLVMArrayType::get(builder_.getI32Type(), values.size()),
           LLVM::Linkage::Internal, fields);
    return name;
  }

  // A symbol's address, or an integer of `width` bits. An empty symbol of width 0 is a null
  // pointer.
  struct Field {
    std::string symbol;
    unsigned width = 0;
    uint64_t value = 0;
  };
  void structure(const std::string &name, llvm::ArrayRef<Field> fields) {
    llvm::SmallVector<mlir::Type> types;
    for (const Field &field : fields)
      types.push_back(field.width ? mlir::Type(builder_.getIntegerType(field.width))
                                  : mlir::Type(pointer_));
    define(name, LLVM::LLVMStructType::getLiteral(builder_.getContext(), types),
           LLVM::Linkage::External, fields);
  }

  void pointer(const std::string &name, const std::string &symbol) {
    LLVM::GlobalOp global =
        LLVM::GlobalOp::create(builder_, loc_, pointer_, /*isConstant=*/true,
                               LLVM::Linkage::External, name, mlir::Attribute());
    mlir::OpBuilder body =
        mlir::OpBuilder::atBlockEnd(&global.getInitializerRegion().emplaceBlock());
    mlir::Value address = LLVM::AddressOfOp::create(body, loc_, pointer_, symbol);
    LLVM::ReturnOp::create(body, loc_, address);
  }

  void declareFunction(const std::string &name) {
    if (module_.lookupSymbol(name))
      return;
    LLVM::LLVMFuncOp::create(builder_, loc_, name,
                             LLVM::LLVMFunctionType::get(pointer_, {pointer_}));
  }

private:
  void define(const std::string &name, mlir::Type type, LLVM::Linkage linkage,
              llvm::ArrayRef<Field> fields) {
    auto global = LLVM::GlobalOp::create(builder_, loc_, type, /*isConstant=*/true, linkage, name,
                                         mlir::Attribute());
    mlir::OpBuilder body =
        mlir::OpBuilder::atBlockEnd(&global.getInitializerRegion().emplaceBlock());
    mlir::Value value = LLVM::UndefOp::create(body, loc_, type);
    for (auto [i, field] : llvm::enumerate(fields)) {
      mlir::Value element;
      if (field.width)
        element =
            LLVM::ConstantOp::create(body, loc_, body.getIntegerType(field.width),
                                     body.getIntegerAttr(body.getIntegerType(field.width),
                                                         llvm::APInt(field.width, field.value)));
      else if (field.symbol.empty())
        element = LLVM::ZeroOp::create(body, loc_, pointer_);
      else
        element = LLVM::AddressOfOp::create(body, loc_, pointer_, field.symbol);
      value = LLVM::InsertValueOp::create(body, loc_, value, element,
                                          llvm::ArrayRef<int64_t>{int64_t(i)});
    }
    LLVM::ReturnOp::create(body, loc_, value);
  }

  mlir::OpBuilder builder_;
  mlir::Location loc_;
  mlir::ModuleOp module_;
  LLVM::LLVMPointerType pointer_;
};

std::string tensorText(DType dtype, llvm::ArrayRef<int64_t> dims) {
  std::string text = std::string(name(dtype)) + "[";
  llvm::raw_string_ostream stream(text);
  llvm::interleaveComma(dims, stream);
  return text + "]";
}

} // namespace

void addModelCode(mlir::ModuleOp module, const ModelCode &code) {
  for (auto function : module.getOps<LLVM::LLVMFuncOp>())
    if (!function.isExternal())
      function.setLinkage(LLVM::Linkage::Internal);

  Globals globals(module);
  std::string prefix = "weft_" + code.name;
  std::string name = globals.bytes(prefix + "_name", code.name, 1, true);
  std::string program =
      globals.bytes(prefix + "_program", code.program, runtime::kBufferAlignment, false);
  std::vector<std::string> names;
  for (auto [i, kernel] : llvm::enumerate(code.kernels))
    names.push_back(globals.bytes(prefix + "_kernel_name_" + std::to_string(i), kernel, 1, true));
  for (const std::string &finder : code.libraryFinders)
    globals.declareFunction(finder);
  auto table = [&](const char *suffix, llvm::ArrayRef<std::string> symbols) {
    return symbols.empty() ? std::string() : globals.pointers(prefix + suffix, symbols);
  };
  std::string nameTable = table("_kernel_names", names),
              kernelTable = table("_kernels", code.kernels);
  std::string libraryTable = table("_libraries", code.libraryFinders);
  std::string parameters = code.parameters.empty()
                               ? std::string()
                               : globals.integers(prefix + "_parameters", code.parameters);

  std::string deviceCode;
  if (!code.executableMaker.empty()) {
    globals.declareFunction(code.executableMaker);
    deviceCode =
        globals.bytes(prefix + "_device_code", code.deviceCode, runtime::kBufferAlignment, false);
  }

  // In the order of weft_model_code.
  globals.structure("weft_model_" + code.name, {{"", 32, sizeof(weft_model_code)},
                                                {"", 32, WEFT_MODEL_VERSION},
                                                {"", 32, WEFT_ABI_VERSION},
                                                {"", 32, code.kernels.size()},
                                                {name, 0, 0},
                                                {program, 0, 0},
                                                {"", 64, code.program.size()},
                                                {nameTable, 0, 0},
                                                {kernelTable, 0, 0},
                                                {"", 64, code.libraryFinders.size()},
                                                {libraryTable, 0, 0},
                                                {"", 64, code.parameters.size()},
                                                {parameters, 0, 0},
                                                {code.executableMaker, 0, 0},
                                                {deviceCode, 0, 0},
                                                {"", 64, code.deviceCode.size()}});
  if (code.isMain)
    globals.pointer("weft_main_model", "weft_model_" + code.name);
}

std::string modelHeader(llvm::StringRef name, const runtime::Program &program,
                        llvm::ArrayRef<int32_t> parameters, llvm::StringRef archives) {
  std::string text;
  llvm::raw_string_ostream out(text);
  std::string upper = name.upper();
  out << "// Generated by weft-compile: the model '" << name
      << "'. How to run it: runtime/aot/weft_model.h.\n"
      << "// Link with libweft_aot.a" << (archives.empty() ? "" : ", ") << archives
      << " and the C++ library.\n"
      << "#ifndef WEFT_MODEL_" << upper << "_H\n#define WEFT_MODEL_" << upper
      << "_H\n\n#include \"runtime/aot/weft_model.h\"\n\n"
      << "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\nextern const weft_model_code weft_model_"
      << name << ";\n\n";
  auto tensor = [&](const char *kind, int64_t i, const std::string &label, DType dtype,
                    llvm::ArrayRef<int64_t> dims, int64_t bytes) {
    out << "// " << kind << " " << i << (label.empty() ? "" : " '" + label + "'") << ": "
        << tensorText(dtype, dims) << "\n";
    out << "#define " << upper << "_" << llvm::StringRef(kind).upper() << "_" << i << "_BYTES "
        << bytes << "\n";
    out << "#define " << upper << "_" << llvm::StringRef(kind).upper() << "_" << i << "_ELEMENTS "
        << bytes / byte_size(dtype) << "\n";
  };
  int64_t inputs = 0;
  for (auto [i, input] : llvm::enumerate(program.inputs))
    if (!llvm::is_contained(parameters, int32_t(i)))
      tensor("input", inputs++, input.name, input.dtype, input.dims, input.bytes);
  for (auto [i, output] : llvm::enumerate(program.outputs))
    tensor("output", i, output.name, output.dtype, output.dims, output.bytes);
  out << "#define " << upper << "_INPUTS " << inputs << "\n#define " << upper << "_OUTPUTS "
      << program.outputs.size() << "\n";
  for (int32_t i : parameters)
    out << "// weight '" << program.inputs[i].name << "', read when the model is opened: "
        << tensorText(program.inputs[i].dtype, program.inputs[i].dims) << "\n";
  out << "\n#ifdef __cplusplus\n}\n#endif\n#endif\n";
  return text;
}

std::string cIdentifier(llvm::StringRef name) {
  std::string result;
  for (char c : name)
    result += llvm::isAlnum(c) ? c : '_';
  if (llvm::StringRef(result).trim('_').empty())
    return {};
  if (llvm::isDigit(result.front()))
    result.insert(result.begin(), '_');
  return result;
}

} // namespace weft::compiler
