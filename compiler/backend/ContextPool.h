// MLIR contexts that wait for the next compilation.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "dialects/weft/ir/Extensions.h"
#include "mlir/IR/MLIRContext.h"
#include "runtime/core/caches.h"

namespace weft::compiler {

// Of pools whose contexts serve programs: contexts that wait for the next one, and the programs
// that a context serves before it is given up. One of more bytecode takes its context along, with
// its constants.
inline constexpr size_t kMostIdleContexts = 4;
inline constexpr int kMostPrograms = 64;
inline constexpr size_t kMostBytecode = 64 << 10;

// A context takes a millisecond to make and to fill with dialects. A thread that meets a new
// context also walks through MLIR's table of the types that the thread has met, once for each kind
// of type. But a context keeps every type and attribute that it has seen: it is given up after
// `mostUses` uses. All functions may be called from any thread; a context is one thread's until the
// thread gives the context back.
class ContextPool {
public:
  struct Context {
    Context() : context(mlir::MLIRContext::Threading::DISABLED) {}
    mlir::MLIRContext context;
    int uses = 0; // counted by whoever has it
  };

  // prepare: fills a new context.
  ContextPool(size_t mostIdle, int mostUses, std::function<void(mlir::MLIRContext &)> prepare)
      : mostIdle_(mostIdle), mostUses_(mostUses), prepare_(std::move(prepare)) {}

  std::unique_ptr<Context> take() {
    std::unique_ptr<Context> found;
    {
      std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        found = std::move(idle_.back());
        idle_.pop_back();
      }
    }
    if (found) {
      ir::loadExtensions(found->context); // that were registered meanwhile
      return found;
    }
    found = std::make_unique<Context>();
    prepare_(found->context);
    return found;
  }
  bool isUsedUp(const Context &context) const {
    return context.uses >= mostUses_;
  }
  // What was made in the context is gone.
  void giveBack(std::unique_ptr<Context> context) {
    if (isUsedUp(*context))
      return;
    std::lock_guard lock(mutex_);
    if (idle_.size() < mostIdle_)
      idle_.push_back(std::move(context));
  }
  runtime::CacheUse use() const {
    std::lock_guard lock(mutex_);
    return {static_cast<int64_t>(idle_.size()), -1, static_cast<int64_t>(mostIdle_), -1};
  }

private:
  const size_t mostIdle_;
  const int mostUses_;
  const std::function<void(mlir::MLIRContext &)> prepare_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Context>> idle_;
};

} // namespace weft::compiler
