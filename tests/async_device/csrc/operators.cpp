// Operators: memory and views are made here, copies are queued, and everything else is computed by the host.
#include <ATen/DeviceGuard.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_native_batch_norm_legit.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/library.h>

#include "memory.h"
#include "streams.h"

namespace async_device {

namespace {

using c10::IntArrayRef;
using std::optional;

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

Stream& current_stream(c10::Device on) {
  const c10::Stream stream = c10::impl::VirtualGuardImpl(c10::kPrivateUse1).getStream(on);
  device(stream.device_index()).used = true;
  return device(stream.device_index()).stream(stream.id());
}

at::Tensor empty(IntArrayRef size, optional<at::ScalarType> dtype, optional<at::Layout>, optional<at::Device> on,
                 optional<bool>, optional<at::MemoryFormat> format) {
  const at::OptionalDeviceGuard guard(on);
  return at::detail::empty_generic(size, device_allocator(), kKeys, c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(IntArrayRef size, IntArrayRef stride, optional<at::ScalarType> dtype, optional<at::Layout>,
                         optional<at::Device> on, optional<bool>) {
  const at::OptionalDeviceGuard guard(on);
  return at::detail::empty_strided_generic(size, stride, device_allocator(), kKeys, c10::dtype_or_default(dtype));
}

const at::Tensor& resize_(const at::Tensor& self, IntArrayRef size, optional<at::MemoryFormat> format) {
  const at::DeviceGuard guard(self.device());
  current_stream(self.device()).synchronize();  // the host moves the values
  return at::native::resize_(self, size, format);
}

// As CUDA does: in the source's stream, between what the destination's holds before and after.
void queue_copy(const at::Tensor& from, const at::Tensor& to) {
  const bool both = from.is_privateuseone() && to.is_privateuseone();
  Stream& stream = current_stream(from.is_privateuseone() ? from.device() : to.device());
  Stream& other = both ? current_stream(to.device()) : stream;
  if (&stream != &other) stream.wait_for(other.mark());
  stream.add([from = Values(from), to = Values(to)] {
    const at::AutoDispatchBelowADInplaceOrView plain;
    to.on_host().copy_(from.on_host());
  });
  if (&stream != &other) other.wait_for(stream.mark());
}

bool host_waits(const at::Tensor& tensor, bool non_blocking) {
  return tensor.is_cpu() && !(non_blocking && is_pinned(tensor.storage().data()));
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  if (to.numel() == 0) return to;
  const at::Tensor source = from.resolve_conj().resolve_neg().expand_as(to);
  queue_copy(source, to);
  if (host_waits(from, non_blocking)) current_stream(to.device()).synchronize();
  if (host_waits(to, non_blocking)) current_stream(from.device()).synchronize();
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  if (from.sizes() != to.sizes()) to.resize_(from.sizes());
  return copy_from(from, to, false);
}

// Its schema hides that it changes the running statistics, and then they would be changed on the host only.
std::tuple<at::Tensor, at::Tensor, at::Tensor> batch_norm(
    const at::Tensor& input, const optional<at::Tensor>& weight, const optional<at::Tensor>& bias,
    const optional<at::Tensor>& mean, const optional<at::Tensor>& variance, bool training, double momentum, double eps) {
  if (!mean || !mean->defined())
    return at::_native_batch_norm_legit(input, weight, bias, training, momentum, eps);
  at::Tensor running_mean = *mean, running_variance = *variance;
  return at::_native_batch_norm_legit(input, weight, bias, running_mean, running_variance, training, momentum, eps);
}

void record_stream(at::Tensor&, c10::Stream) {}  // tasks hold the memory that they work on

// It copies to the host and back, and these copies wait for the stream: so it takes its place there.
void on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  at::native::cpu_fallback(op, stack);
}

}  // namespace

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_host>());
}

// Under autocast everything stays as precise as it is.
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", static_cast<at::Tensor (*)(const at::Tensor&, IntArrayRef)>(at::native::view));
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("unfold", at::native::unfold);
  m.impl("resize_", resize_);
  m.impl("set_.source_Storage", static_cast<at::Tensor& (*)(at::Tensor&, at::Storage)>(at::native::set_));
  m.impl("set_.source_Storage_storage_offset", at::native::set_storage_cpu_);
  m.impl("set_.source_Tensor", at::native::set_tensor_);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("native_batch_norm", batch_norm);
  m.impl("record_stream", record_stream);
}

}  // namespace async_device
