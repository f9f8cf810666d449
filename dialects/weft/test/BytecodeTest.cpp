#include "dialects/weft/ir/Bytecode.h"

#include "dialects/weft/ir/BytecodeFile.h"
#include "dialects/weft/test/DialectFixture.h"
#include "mlir/Bytecode/BytecodeWriter.h"

namespace weft::ir {
namespace {

constexpr const char *kProgram =
    R"(func.func @f(%x: tensor<?x3xf32, #weft.dims<n, _>>, %s: tensor<2xi64>) -> tensor<?x3xf32, #weft.dims<n, _>> {
  %0 = weft.gelu %x {tanh_approximation = true} : tensor<?x3xf32, #weft.dims<n, _>>
  %1 = weft.fusion(%a = %0 : tensor<?x3xf32, #weft.dims<n, _>>) -> (tensor<?x3xf32, #weft.dims<n, _>>) {
    %2 = weft.softmax %a, dim = 1 : tensor<?x3xf32, #weft.dims<n, _>>
    weft.yield %2 : tensor<?x3xf32, #weft.dims<n, _>>
  }
  return %1 : tensor<?x3xf32, #weft.dims<n, _>>
})";

class BytecodeTest : public DialectFixture {
protected:
  static std::string print(mlir::ModuleOp module) {
    std::string text;
    llvm::raw_string_ostream(text) << module;
    return text;
  }
  std::string write(std::unique_ptr<BytecodeVersion> version = nullptr) {
    EXPECT_TRUE(parse(kProgram)) << messages;
    mlir::BytecodeWriterConfig config;
    if (version)
      config.setDialectVersion<WeftDialect>(std::move(version));
    std::string bytes;
    llvm::raw_string_ostream out(bytes);
    EXPECT_TRUE(mlir::succeeded(mlir::writeBytecodeToFile(*module, out, config)));
    return bytes;
  }
};

TEST_F(BytecodeTest, RoundTrip) {
  std::string bytes = write(), before = print(*module);
  auto read = mlir::parseSourceString<mlir::ModuleOp>(bytes, &context);
  ASSERT_TRUE(read) << messages;
  EXPECT_EQ(print(*read), before);
}

TEST_F(BytecodeTest, AVersionWhoseOpsHadOtherPropertiesIsRefused) {
  EXPECT_TRUE(mlir::parseSourceString<mlir::ModuleOp>(
      write(std::make_unique<BytecodeVersion>(kOldestBytecodeVersion)), &context))
      << messages;
  EXPECT_FALSE(mlir::parseSourceString<mlir::ModuleOp>(
      write(std::make_unique<BytecodeVersion>(kOldestBytecodeVersion - 1)), &context));
  EXPECT_NE(messages.find("of version 1, but this Weft reads versions from 2 on; write it anew"),
            std::string::npos)
      << messages;
}

TEST_F(BytecodeTest, ANewerVersionIsRefused) {
  EXPECT_FALSE(mlir::parseSourceString<mlir::ModuleOp>(
      write(std::make_unique<BytecodeVersion>(kBytecodeVersion + 1)), &context));
  EXPECT_NE(
      messages.find("the file holds weft ops of version 3, but this Weft reads versions up to 2"),
      std::string::npos)
      << messages;
}

TEST_F(BytecodeTest, CutFilesAreRefused) {
  std::string bytes = write();
  for (size_t length = 8; length < bytes.size(); length += 7)
    EXPECT_FALSE(mlir::parseSourceString<mlir::ModuleOp>(llvm::StringRef(bytes).take_front(length),
                                                         &context))
        << length;
}

TEST_F(BytecodeTest, AnyDamageToAFileIsSeen) {
  std::string old = write(), bytes = writeBytecode(*module), before = print(*module);
  auto read = mlir::parseSourceString<mlir::ModuleOp>(bytes, &context);
  ASSERT_TRUE(read) << messages;
  EXPECT_EQ(print(*read), before);
  EXPECT_EQ(inspectBytecode(bytes), BytecodeState::Intact);
  EXPECT_EQ(inspectBytecode(old), BytecodeState::Foreign);
  EXPECT_EQ(inspectBytecode(before), BytecodeState::None);
  EXPECT_EQ(inspectBytecode(""), BytecodeState::None);
  EXPECT_EQ(inspectBytecode(llvm::StringRef(bytes).take_front(20)), BytecodeState::Foreign);

  size_t sections = bytes.find("Weft, checksum ");
  ASSERT_NE(sections, std::string::npos);
  sections += llvm::StringRef("Weft, checksum ").size();
  for (size_t at = sections; at < bytes.size(); ++at) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 1 << at % 8);
    EXPECT_EQ(inspectBytecode(changed), BytecodeState::Damaged) << at;
    if (at > sections + 16)
      EXPECT_EQ(inspectBytecode(llvm::StringRef(bytes).take_front(at)), BytecodeState::Damaged)
          << at;
  }
}

} // namespace
} // namespace weft::ir
