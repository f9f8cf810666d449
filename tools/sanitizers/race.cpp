// Races on purpose, for the test that no suppression hides those of Weft's own code: two threads
// write one number without a lock. What the suppressions name (MLIR's pass manager) is on the
// stack, under Weft's code; so is a thread of the pool.
// Usage: race thread|pass|walk|team
#include <atomic>
#include <cstring>
#include <thread>

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "runtime/threading/parallel_for.h"

namespace weft::sanitizers {
namespace {

int64_t shared = 0;

__attribute__((noinline)) void write_without_a_lock() {
  for (int i = 0; i < 1000; ++i)
    shared += i;
}

class RacingPass : public mlir::PassWrapper<RacingPass, mlir::OperationPass<mlir::ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(RacingPass)
  void runOnOperation() override {
    write_without_a_lock();
  }
};

// What a compilation does, with a context of its own.
void compile(bool walk) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  if (walk) {
    module->walk([](mlir::Operation *) { write_without_a_lock(); });
    return;
  }
  mlir::PassManager passes(&context);
  passes.addPass(std::make_unique<RacingPass>());
  if (mlir::failed(passes.run(*module)))
    std::abort();
}

template <typename F> void on_two_threads(F body) {
  std::thread other(body);
  body();
  other.join();
}

} // namespace
} // namespace weft::sanitizers

int main(int argc, char **argv) {
  using namespace weft;
  using namespace weft::sanitizers;
  std::string_view how = argc == 2 ? argv[1] : "";
  if (how == "thread")
    on_two_threads(write_without_a_lock);
  else if (how == "pass" || how == "walk")
    on_two_threads([&] { compile(how == "walk"); });
  else if (how == "team")
    runtime::parallel_for(
        2, 1, 2,
        [](void *, int, int64_t, int64_t) {
          // Lest one thread takes both pieces; relaxed, so that it orders nothing.
          static std::atomic<int> begun{0};
          begun.fetch_add(1, std::memory_order_relaxed);
          while (begun.load(std::memory_order_relaxed) < 2)
            std::this_thread::yield();
          write_without_a_lock();
          return int32_t(0);
        },
        nullptr);
  else
    return 2;
  return 0;
}
