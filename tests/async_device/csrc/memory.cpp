#include "memory.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/core/impl/alloc_cpu.h>

#include <cstring>
#include <map>
#include <mutex>

#include "streams.h"

namespace async_device {

namespace {

std::mutex pinned_mutex;

std::map<const char*, size_t>& pinned_ranges() {
  static auto* ranges = new std::map<const char*, size_t>;  // blocks may outlive static objects
  return *ranges;
}

}  // namespace

struct Block {
  Block(size_t bytes, bool is_pinned) : data(c10::alloc_cpu(bytes)), pinned(is_pinned) {
    if (!pinned) return;
    std::lock_guard<std::mutex> lock(pinned_mutex);
    pinned_ranges()[static_cast<char*>(data)] = bytes;
  }

  ~Block() {
    if (pinned) {
      std::lock_guard<std::mutex> lock(pinned_mutex);
      pinned_ranges().erase(static_cast<char*>(data));
    }
    c10::free_cpu(data);
  }

  void* data;
  bool pinned;
};

namespace {

void let_go(void* block) {
  delete static_cast<BlockPtr*>(block);
}

struct BlockAllocator : c10::Allocator {
  explicit BlockAllocator(bool is_pinned) : pinned(is_pinned) {}

  c10::DataPtr allocate(size_t bytes) override {
    const c10::Device on = pinned ? c10::Device(c10::kCPU) : current_device();
    if (bytes == 0) return {nullptr, nullptr, &let_go, on};
    auto* block = new BlockPtr(std::make_shared<Block>(bytes, pinned));
    return {(*block)->data, block, &let_go, on};
  }

  c10::Device current_device() const {
    const c10::Device on = c10::impl::VirtualGuardImpl(c10::kPrivateUse1).getDevice();
    device(on.index()).used = true;
    return on;
  }

  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }

  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }

  bool pinned;
};

BlockPtr block_of(const c10::DataPtr& data) {
  if (data.get_deleter() != &let_go || data.get_context() == nullptr) return nullptr;
  return *static_cast<BlockPtr*>(data.get_context());
}

}  // namespace

c10::Allocator* device_allocator() {
  static auto* allocator = new BlockAllocator(false);
  return allocator;
}

c10::Allocator* pinned_allocator() {
  static auto* allocator = new BlockAllocator(true);
  return allocator;
}

bool is_pinned(const void* data) {
  std::lock_guard<std::mutex> lock(pinned_mutex);
  const auto& ranges = pinned_ranges();
  auto after = ranges.upper_bound(static_cast<const char*>(data));
  if (after == ranges.begin()) return false;
  const auto& [start, bytes] = *std::prev(after);
  return static_cast<const char*>(data) < start + bytes;
}

Values::Values(const at::Tensor& tensor)
    : block(block_of(tensor.storage().data_ptr())),
      data(tensor.data_ptr()),
      sizes(tensor.sizes().vec()),
      strides(tensor.strides().vec()),
      dtype(tensor.scalar_type()) {}

at::Tensor Values::on_host() const {
  return at::from_blob(data, sizes, strides, at::TensorOptions().dtype(dtype));
}

static c10::AllocatorRegisterer<c10::kPrivateUse1> registered(device_allocator());

}  // namespace async_device
