// What Python calls, as torch.ops.asyncdev: kernels of a stated duration, collectives, and settings. Torch lets go of the
// interpreter's lock around each of them.
#include <ATen/core/ivalue.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/add.h>
#include <ATen/ops/div.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/mul.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/library.h>

#include <thread>

#include "exchange.h"
#include "memory.h"
#include "streams.h"

namespace async_device {

namespace {

using MaybeTensors = c10::List<std::optional<at::Tensor>>;

Stream& current_stream(int64_t index) {
  const c10::impl::VirtualGuardImpl guard(c10::kPrivateUse1);
  const c10::Device on = index < 0 ? guard.getDevice() : c10::Device(c10::kPrivateUse1, c10::DeviceIndex(index));
  device(on.index()).used = true;
  return device(on.index()).stream(guard.getStream(on).id());
}

void rest(double ms) {
  std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ms));
}

void spin(double ms, int64_t index) {
  current_stream(index).add([ms] { rest(ms); });
}

void fail_later(std::string why, int64_t index) {
  current_stream(index).add([why = std::move(why)] { throw std::runtime_error(why); });
}

// Gates in streams, by number; each is opened once.
std::mutex gates_mutex;
std::vector<MarkPtr> gates;

int64_t hold(int64_t index) {
  auto gate = std::make_shared<Mark>();
  current_stream(index).wait_for(gate);
  const std::lock_guard<std::mutex> lock(gates_mutex);
  gates.push_back(std::move(gate));
  return static_cast<int64_t>(gates.size()) - 1;
}

void open_gate(int64_t gate) {
  const std::lock_guard<std::mutex> lock(gates_mutex);
  gates.at(static_cast<size_t>(gate))->pass();
}

// What goes to, or comes from, the ranks of a group: under a name for each that expects something.
using Parcels = std::vector<std::pair<std::string, Values>>;

Parcels parcels(const std::vector<std::string>& names, const MaybeTensors& tensors) {
  Parcels made;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::optional<at::Tensor> tensor = tensors.get(i);
    if (!tensor || tensor->numel() == 0) continue;
    TORCH_CHECK(tensor->is_contiguous(), "tensors of collectives must be contiguous");
    made.emplace_back(names[i], Values(*tensor));
  }
  return made;
}

void add_up(const Values& sum, const Parcels& terms, const std::string& op) {
  const at::AutoDispatchBelowADInplaceOrView plain;
  at::Tensor total = terms.at(0).second.on_host();
  for (size_t i = 1; i < terms.size(); ++i) {
    const at::Tensor term = terms[i].second.on_host();
    if (op == "max") total = at::maximum(total, term);
    else if (op == "min") total = at::minimum(total, term);
    else if (op == "product") total = at::mul(total, term);
    else total = at::add(total, term);
  }
  if (op == "avg") total = at::div(total, static_cast<int64_t>(terms.size()));
  sum.on_host().copy_(total);
}

// In the current stream, after `ms`: leave `outgoing`, take `incoming`, and reduce what came into `sum`, if there is one.
void exchange(std::vector<std::string> outgoing_names, MaybeTensors outgoing, std::vector<std::string> incoming_names,
              MaybeTensors incoming, std::optional<at::Tensor> sum, std::string op, double ms, int64_t index) {
  std::optional<Values> reduced;
  if (sum) reduced.emplace(*sum);
  current_stream(index).add([out = parcels(outgoing_names, outgoing), in = parcels(incoming_names, incoming),
                             reduced = std::move(reduced), op = std::move(op), ms] {
    rest(ms);
    for (const auto& [name, values] : out) {
      const at::Tensor tensor = values.on_host();
      leave(name, tensor.data_ptr(), tensor.nbytes());
    }
    for (const auto& [name, values] : in) {
      const at::Tensor tensor = values.on_host();
      take(name, tensor.data_ptr(), tensor.nbytes());
    }
    if (reduced && !in.empty()) add_up(*reduced, in, op);
  });
}

std::deque<Task> captured;

int64_t end_capture(int64_t index) {
  captured = current_stream(index).end_capture();
  return static_cast<int64_t>(captured.size());
}

void replay(int64_t index) {
  for (const Task& task : captured) current_stream(index).add(task);
}

}  // namespace

TORCH_LIBRARY(asyncdev, m) {
  m.def("spin(float ms, int device=-1) -> ()", &spin);
  m.def("hold(int device=-1) -> int", &hold);
  m.def("open(int gate) -> ()", &open_gate);
  m.def("fail(str why, int device=-1) -> ()", &fail_later);
  m.def("exchange(str[] outgoing_names, Tensor?[] outgoing, str[] incoming_names, Tensor?[] incoming, Tensor? sum, "
        "str op, float ms, int device) -> ()", &exchange);
  m.def("set_queue_capacity(int tasks) -> ()", &set_queue_capacity);
  m.def("device_count() -> int", []() -> int64_t { return device_count(); });
  m.def("has_context(int device) -> bool", [](int64_t index) -> bool { return device(int(index)).used; });
  m.def("begin_capture(int device=-1) -> ()", [](int64_t index) { current_stream(index).begin_capture(); });
  m.def("end_capture(int device=-1) -> int", &end_capture);
  m.def("replay(int device=-1) -> ()", &replay);
}

}  // namespace async_device
