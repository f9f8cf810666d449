#include "compiler/link/Jit.h"

#include <atomic>
#include <cstring>
#include <mutex>

#include "compiler/link/Limits.h"
#include "compiler/pipeline/Registrations.h"
#include "runtime/core/status.h"
#include "runtime/profile/profile.h"
#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/ExecutionEngine/Orc/Core.h"
#include "llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h"
#include "llvm/ExecutionEngine/Orc/SelfExecutorProcessControl.h"
#include "llvm/Support/MemoryBuffer.h"

namespace weft::compiler {
namespace {

namespace orc = llvm::orc;

// One session for all programs of the process. It is never destroyed: executables may outlive
// main().
class Session {
public:
  static absl::StatusOr<Session *> get() {
    static absl::StatusOr<Session *> session = make();
    return session;
  }

  orc::ExecutionSession &execution() {
    return *execution_;
  }
  orc::ObjectLinkingLayer &linker() {
    return *linker_;
  }
  // Errors that ORC reports outside of the call that failed.
  struct Errors {
    std::string text;
    std::string missing; // the symbols that are nowhere: "'f', 'g'"
  };
  Errors takeErrors() {
    std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(errors_, Errors());
  }

private:
  static absl::StatusOr<Session *> make() {
    auto control = orc::SelfExecutorProcessControl::Create();
    if (!control)
      return absl::InternalError("cannot set up the linker for compiled code: " +
                                 llvm::toString(control.takeError()));
    auto *session = new Session();
    session->execution_ = std::make_unique<orc::ExecutionSession>(std::move(*control));
    session->execution_->setErrorReporter([session](llvm::Error error) {
      std::lock_guard<std::mutex> lock(session->mutex_);
      Errors &errors = session->errors_;
      llvm::handleAllErrors(
          std::move(error),
          [&](const orc::SymbolsNotFound &lacking) {
            for (const orc::SymbolStringPtr &name : lacking.getSymbols())
              if (errors.missing.size() < kMostErrorText)
                errors.missing += (errors.missing.empty() ? "'" : ", '") + (*name).str() + "'";
          },
          [&](const llvm::ErrorInfoBase &other) {
            if (errors.text.size() < kMostErrorText)
              errors.text += "\n" + other.message();
          });
    });
    session->linker_ = std::make_unique<orc::ObjectLinkingLayer>(*session->execution_);
    return session;
  }

  std::unique_ptr<orc::ExecutionSession> execution_;
  std::unique_ptr<orc::ObjectLinkingLayer> linker_;
  std::mutex mutex_;
  Errors errors_; // under it
};

// What LLVM may call for plain memory operations.
llvm::Error defineMemoryFunctions(orc::ExecutionSession &session, orc::JITDylib &dylib) {
  auto symbol = [](auto *function) {
    return orc::ExecutorSymbolDef(orc::ExecutorAddr::fromPtr(function),
                                  llvm::JITSymbolFlags::Exported);
  };
  orc::SymbolMap symbols;
  symbols[session.intern("memcpy")] =
      symbol(static_cast<void *(*)(void *, const void *, size_t)>(&std::memcpy));
  symbols[session.intern("memmove")] =
      symbol(static_cast<void *(*)(void *, const void *, size_t)>(&std::memmove));
  symbols[session.intern("memset")] =
      symbol(static_cast<void *(*)(void *, int, size_t)>(&std::memset));
  return dylib.define(orc::absoluteSymbols(std::move(symbols)));
}

} // namespace

JitCode::~JitCode() {
  if (!dylib_)
    return;
  // Codes are made with a session, so that there is one.
  if (llvm::Error error = (*Session::get())->execution().removeJITDylib(*dylib_))
    llvm::consumeError(std::move(error));
}

absl::StatusOr<std::shared_ptr<JitCode>>
JitCode::link(llvm::ArrayRef<std::shared_ptr<const std::string>> objects,
              llvm::ArrayRef<std::string> symbols) {
  WEFT_ASSIGN_OR_RETURN(Session * session, Session::get());
  orc::ExecutionSession &execution = session->execution();
  auto fail = [&](llvm::Error error) {
    Session::Errors errors = session->takeErrors();
    std::string kernel, text;
    llvm::handleAllErrors(
        std::move(error),
        [&](const orc::FailedToMaterialize &failed) {
          for (const auto &[dylib, names] : failed.getSymbols())
            for (const orc::SymbolStringPtr &name : names)
              if (kernel.empty() || *name < kernel)
                kernel = (*name).str();
          text += failed.message();
        },
        [&](const llvm::ErrorInfoBase &other) { text += other.message(); });
    if (errors.missing.empty() || kernel.empty())
      return absl::InternalError("cannot link compiled kernels: " + text + errors.text);
    std::string passes = registeredNames("kernel-pass");
    return absl::InternalError(
        "cannot link the kernel '" + kernel + "': it calls " + errors.missing +
        ", which it does not define; beside its own functions it may call memcpy, memmove and "
        "memset" +
        (passes.empty() ? "" : " (registered are " + passes + ")"));
  };
  if (symbols.empty())
    return std::shared_ptr<JitCode>(new JitCode());
  runtime::profile::Span span(
      [] { return runtime::profile::Label{runtime::profile::Kind::kLink, "link kernels"}; });

  static std::atomic<uint64_t> number{0};
  std::shared_ptr<JitCode> code(new JitCode());
  code->dylib_ = &execution.createBareJITDylib("weft.program." + std::to_string(number++));
  if (llvm::Error error = defineMemoryFunctions(execution, *code->dylib_))
    return fail(std::move(error));
  for (const auto &object : objects)
    if (llvm::Error error = session->linker().add(
            *code->dylib_, llvm::MemoryBuffer::getMemBufferCopy(*object, "kernel")))
      return fail(std::move(error));

  orc::SymbolLookupSet wanted;
  for (const std::string &symbol : symbols)
    wanted.add(execution.intern(symbol));
  wanted.removeDuplicates();
  auto found = execution.lookup(orc::makeJITDylibSearchOrder(code->dylib_), std::move(wanted));
  if (!found)
    return fail(found.takeError());
  for (auto &[name, definition] : *found)
    code->addresses_[*name] = definition.getAddress().toPtr<void *>();
  return code;
}

} // namespace weft::compiler
