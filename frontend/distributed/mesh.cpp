#include "weft/distributed/mesh.h"

#include <cstring>
#include <set>

#include "frontend/distributed/group_state.h"
#include "frontend/distributed/limits.h"
#include "frontend/distributed/runner.h"
#include "frontend/recorder/requests/requests.h"
#include "frontend/sharding/sharding.h"
#include "frontend/tensor/impl.h"
#include "frontend/tensor/starting.h"
#include "weft/autograd.h"

namespace weft::distributed {

using namespace recorder;

namespace {

std::string names_of(const MeshState &mesh) {
  std::string names;
  for (const compiler::MeshAxis &axis : mesh.axes)
    names += (names.empty() ? "" : ", ") + axis.name;
  return names;
}

size_t index_of(const MeshState &mesh, const std::string &name, const char *op, Location location) {
  for (size_t i = 0; i < mesh.axes.size(); ++i)
    if (mesh.axes[i].name == name)
      return i;
  fail_at(location, ErrorKind::kValue,
          std::string(op) + ": the mesh has no axis '" + name + "'; it has " + names_of(mesh));
}

// In a session. whole: the sizes are the whole tensor's, which must divide.
std::shared_ptr<const Sharding> sharding_by(const TypeInfo &type, const Mesh &mesh,
                                            const AxisNames &names, bool whole) {
  const MeshState &state = held(mesh.state(), Session::op(), "mesh", Session::location());
  if (names.size() != type.dims.size())
    fail(ErrorKind::kValue, "the tensor is " + describe(type) + ", and axes has " +
                                std::to_string(names.size()) +
                                " of its dims; each needs the name of one, or \"\"");
  compiler::Axes axes(names.size(), compiler::kWhole);
  for (size_t dim = 0; dim < names.size(); ++dim) {
    if (names[dim].empty())
      continue;
    auto axis =
        static_cast<int32_t>(index_of(state, names[dim], Session::op(), Session::location()));
    if (llvm::is_contained(axes, axis))
      fail(ErrorKind::kValue, "the axis '" + names[dim] + "' stands twice; it cuts one dim");
    if (whole && !compiler::divides(state.axes[axis], type.dims[dim]))
      fail(ErrorKind::kShape, "dim " + std::to_string(dim) + " of x, " + describe(type) +
                                  ", has no " + std::to_string(state.axes[axis].ranks) +
                                  " equal parts, one for each place on the axis '" + names[dim] +
                                  "'");
    axes[dim] = axis;
  }
  return sharding_of(mesh.state(), axes);
}

// '*' stands for any characters.
bool fits(const std::string &pattern, const std::string &name) {
  size_t p = 0, n = 0, star = std::string::npos, after = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      after = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p, ++n;
    } else if (star != std::string::npos) {
      p = star + 1;
      n = ++after;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string::npos;
}

// What MeshState::say is of the group, which lives as long as its job, and not as long as types do
// that are cut over its mesh.
std::vector<std::string> said_by(const std::weak_ptr<GroupState> &of, const char *op,
                                 const std::string &what, const std::string &text,
                                 Location location) {
  location = CallerScope::resolve(location);
  std::shared_ptr<GroupState> state = of.lock();
  if (!state || active_trace())
    throw Error(ErrorKind::kState,
                std::string(op) + (state ? ": ranks wait for each other here, which they cannot "
                                           "while a function is recorded; call it outside"
                                         : ": the job of the mesh's ranks has ended"),
                location);
  const size_t ranks = static_cast<size_t>(state->group->size()), bytes = kLimits.said_bytes;
  std::string own = text.substr(0, bytes), all(ranks * bytes, '\0');
  own.resize(bytes);
  runtime::CollectiveCall call;
  call.kind = runtime::Collective::kAllGather;
  call.dtype = DType::kUInt8;
  call.count = static_cast<int64_t>(bytes);
  call.input = own.data();
  call.output = all.data();
  call.place = std::string(location.file_name()) + ":" + std::to_string(location.line());
  call.operand = what;
  absl::Status status = in_order(*state, op, location, [&] { return state->group->run(call); });
  if (!status.ok())
    throw Error(ErrorKind::kRun, std::string(op) + ": " + std::string(status.message()), location);
  std::vector<std::string> said;
  for (const char *each = all.data(); said.size() < ranks; each += bytes)
    said.emplace_back(each, strnlen(each, bytes));
  return said;
}

} // namespace

Mesh::Mesh(const std::vector<std::pair<std::string, int>> &axes, const Group &of,
           Location location) {
  GroupState &group = checked(of, "Mesh", location);
  auto refuse = [&](const std::string &what) {
    fail_at(location, ErrorKind::kValue, "Mesh: " + what);
  };
  int64_t places = 1;
  std::set<std::string> names;
  for (const auto &[name, size] : axes) {
    if (name.empty())
      refuse("an axis has no name");
    if (!names.insert(name).second)
      refuse("two axes have the name '" + name + "'");
    if (size < 1)
      refuse("the axis '" + name + "' has " + std::to_string(size) + " places");
    places *= size;
  }
  if (places != group.group->size())
    refuse("the axes have " + std::to_string(places) + " places together, and the group has " +
           std::to_string(group.group->size()) + " ranks");
  // Ranks with other axes, or in another order, would cut other parts: each split compares all
  // axes.
  std::string call;
  for (const auto &[name, size] : axes)
    call += (call.empty() ? "Mesh(" : ", ") + name + " " + std::to_string(size);
  call += ")";
  auto state = std::make_shared<MeshState>();
  int64_t inside = places, self = group.group->rank();
  for (const auto &[name, size] : axes) {
    int64_t outer = inside;
    inside /= size;
    int64_t place = self / inside % size;
    // Those who agree on all other places.
    groups_.push_back(
        split_off(of, self / outer * inside + self % inside, place, name, "Mesh", call, location));
    state->axes.push_back({name, groups_.back().state()->id, place, size});
  }
  state->say = [all = find_group(group.id)](const char *op, const std::string &call,
                                            const std::string &text, Location at) {
    return said_by(all, op, call, text, at);
  };
  state_ = std::move(state);
}

Group Mesh::group(const std::string &axis, Location location) const {
  return groups_[index_of(held(state_, "group", "mesh", location), axis, "group", location)];
}
int Mesh::size(const std::string &axis, Location location) const {
  const MeshState &mesh = held(state_, "size", "mesh", location);
  return static_cast<int>(mesh.axes[index_of(mesh, axis, "size", location)].ranks);
}
int Mesh::rank(const std::string &axis, Location location) const {
  const MeshState &mesh = held(state_, "rank", "mesh", location);
  return static_cast<int>(mesh.axes[index_of(mesh, axis, "rank", location)].rank);
}

Tensor shard(const Tensor &x, const Mesh &mesh, const AxisNames &axes, Location location) {
  Session session("shard", location);
  // What nobody has read yet is made in parts.
  const TensorImpl &impl = *recorder::checked(x, "x");
  Var input = impl.start && !(impl.leaf && grad_mode()) ? recorded_start(*impl.start, *impl.type)
                                                        : read(x, "x");
  TypeRef to = cut_type(input.type(), sharding_by(input.type(), mesh, axes, /*whole=*/true));
  return wrap(resharded(input, to));
}

Tensor whole(const Tensor &x, Location location) {
  Session session("whole", location);
  Var input = read(x, "x");
  return wrap(resharded(input, cut_type(input.type(), nullptr)));
}

Tensor local_part(const Tensor &x, Location location) {
  Session session("local_part", location);
  return wrap(part_of(read(x, "x")));
}

Tensor from_parts(const Tensor &part, const Mesh &mesh, const AxisNames &axes, Location location) {
  Session session("from_parts", location);
  Var input = read(part, "part");
  if (input.type().part)
    fail(ErrorKind::kValue, "part is " + describe(input) + ", a tensor of parts itself");
  std::shared_ptr<const Sharding> sharding = sharding_by(input.type(), mesh, axes, /*whole=*/false);
  return wrap(sharding ? of_part(input, sharding) : input.without_history());
}

AxisNames axes_of(const Tensor &x, Location location) {
  Session session("axes_of", location);
  Var input = read(x, "x");
  AxisNames names(input.dims().size());
  if (const Sharding *sharding = input.type().sharding.get())
    for (size_t i = 0; i < names.size(); ++i)
      if (sharding->axes[i] != compiler::kWhole)
        names[i] = sharding->mesh->axes[sharding->axes[i]].name;
  return names;
}

void shard(const nn::Module &module, const Mesh &mesh, const ShardingRules &rules,
           Location location) {
  CallerScope scope(location);
  Session session("shard", location);
  NoGrad no_grad;
  std::vector<bool> used(rules.size(), false);
  std::vector<std::pair<TensorImpl *, Tensor>> cut; // nothing is cut where one cannot be
  std::set<const TensorImpl *> seen;
  for (const auto &[name, tensor] : module.state()) {
    for (size_t i = 0; i < rules.size(); ++i) {
      if (!fits(rules[i].first, name))
        continue;
      used[i] = true;
      TensorImpl *impl = tensor.impl()->storage();
      if (!seen.insert(impl).second)
        break;
      if (tensor.impl()->is_view())
        fail(ErrorKind::kState, name + " is a view, and is cut with what it is a view of");
      if (impl->leaf && impl->leaf->grad.defined())
        fail(ErrorKind::kState, name + " has a gradient; zero_grad() drops it");
      try {
        cut.emplace_back(impl, shard(tensor, mesh, rules[i].second, location));
      } catch (const Error &error) {
        fail_at(location, error.kind(), error.message() + " (x is " + name + ")");
      }
      break;
    }
  }
  for (size_t i = 0; i < rules.size(); ++i)
    if (!used[i])
      fail(ErrorKind::kValue,
           "the rule '" + rules[i].first + "' fits no name of the module's parameters and buffers");
  std::vector<Value *> values;
  for (auto &[impl, part] : cut)
    values.push_back(part.impl()->var.value.get());
  submit(values, {CutReason::kInit, CallerScope::resolve(location)});
  for (auto &[impl, part] : cut)
    retype(*impl, part.impl()->var);
}

} // namespace weft::distributed
