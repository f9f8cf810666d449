// Functions of the user's that gradients go through, and computed tensors that keep theirs.
#pragma once

#include "frontend/tensor/impl.h"

namespace weft::recorder {

// The call says what is done with the leaf's gradient. While a function is recorded, that is no part
// of a program where the leaf is an argument's.
inline void note_own_leaf(GradNode &leaf) {
  if (Trace *trace = thread_trace; trace && leaf.number >= trace->first_gradient)
    trace->on_grad(&leaf);
}
// The backward that this thread records has reached the leaf: a recording of it is right only as
// long as leaves have the same hooks.
void note_hooks(const GradNode &leaf);
// What the hook's function makes of the gradient; null where it leaves it as it is. Gives the lock
// up.
Var call_hook(const GradHook &hook, const Var &gradient, bool with_history);
// In-place: a gradient that the storage keeps is that of its new value, no longer that of result
// `index` of `before`.
void move_kept_gradient(const TensorImpl &storage, const GradRef &before, uint32_t index);

} // namespace weft::recorder
