// Memory of the device, and pinned memory of the host: both are plain memory, held by whoever still works on it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include <memory>

namespace async_device {

struct Block;
using BlockPtr = std::shared_ptr<Block>;

c10::Allocator* device_allocator();  // on the current device
c10::Allocator* pinned_allocator();
bool is_pinned(const void* data);

// Where a tensor's values lie. A task holds this and not the tensor: to let go of a tensor's last reference takes the
// interpreter's lock, which no stream may wait for.
struct Values {
  explicit Values(const at::Tensor& tensor);
  at::Tensor on_host() const;  // a tensor of the host over the same memory

  BlockPtr block;  // null for memory of somebody else
  void* data;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  at::ScalarType dtype;
};

}  // namespace async_device
