// What torch asks of a device of any kind: the current device and stream, streams, events, and its hooks.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/Resize.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>
#include <vector>

#include "memory.h"
#include "streams.h"

namespace async_device {

namespace {

thread_local c10::DeviceIndex current_index = 0;

int64_t& current_stream_id(c10::DeviceIndex index) {
  thread_local std::vector<int64_t> ids(device_count(), 0);
  return ids.at(static_cast<size_t>(index));
}

c10::Stream named(c10::DeviceIndex index, int64_t id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::kPrivateUse1, index), id);
}

Stream& queue_of(const c10::Stream& stream) {
  Device& on = device(stream.device_index());
  on.used = true;
  return on.stream(stream.id());
}

// What torch holds of an event: the mark that it made last. One thread may ask while another records.
struct Event {
  std::atomic<MarkPtr> last;
  const bool timed;
};

Event& event_at(void* event) {
  return *static_cast<Event*>(event);
}

MarkPtr last_of(void* event) {
  return event_at(event).last.load();
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::kPrivateUse1; }

  c10::Device exchangeDevice(c10::Device to) const override {
    const c10::Device before = getDevice();
    setDevice(to);
    return before;
  }
  c10::Device getDevice() const override { return {c10::kPrivateUse1, current_index}; }
  void setDevice(c10::Device to) const override {
    TORCH_CHECK(0 <= to.index() && to.index() < device_count(), "asyncdev has no device ", int(to.index()));
    current_index = to.index();
  }
  void uncheckedSetDevice(c10::Device to) const noexcept override { current_index = to.index(); }
  c10::DeviceIndex deviceCount() const noexcept override { return static_cast<c10::DeviceIndex>(device_count()); }

  c10::Stream getStream(c10::Device on) const override {
    const auto index = on.has_index() ? on.index() : current_index;
    return named(index, current_stream_id(index));
  }
  c10::Stream getDefaultStream(c10::Device on) const override { return named(on.index(), 0); }
  c10::Stream getStreamFromGlobalPool(c10::Device on, bool high_priority) const override {
    const auto index = on.has_index() ? on.index() : current_index;
    return named(index, device(index).next_of_pool(high_priority));
  }
  c10::Stream getNewStream(c10::Device on, int priority) const override {
    return getStreamFromGlobalPool(on, priority < 0);  // CUDA's new streams are of its pool as well
  }
  c10::Stream exchangeStream(c10::Stream to) const override {
    const c10::Stream before = getStream(to.device());
    current_stream_id(to.device_index()) = to.id();
    return before;
  }
  bool queryStream(const c10::Stream& stream) const override { return queue_of(stream).idle(); }
  void synchronizeStream(const c10::Stream& stream) const override { queue_of(stream).synchronize(); }
  bool isStreamCapturing(const c10::Stream& stream) const override { return queue_of(stream).capturing(); }
  void synchronizeDevice(const c10::DeviceIndex index) const override {
    device(index < 0 ? current_index : index).synchronize();
  }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex, const c10::EventFlag flag)
      const override {
    MarkPtr mark = queue_of(stream).mark();
    if (*event == nullptr) *event = new Event{MarkPtr(), flag == c10::EventFlag::BACKEND_DEFAULT};
    event_at(*event).last = std::move(mark);
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) queue_of(stream).wait_for(last_of(event));
  }
  bool queryEvent(void* event) const override {
    raise_if_failed();
    return event == nullptr || last_of(event)->passed();
  }
  void synchronizeEvent(void* event) const override {
    raise_if_failed();
    if (event != nullptr) last_of(event)->wait();
    raise_if_failed();
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<Event*>(event);
  }
  double elapsedTime(void* from, void* to, const c10::DeviceIndex) const override {
    raise_if_failed();
    TORCH_CHECK(from != nullptr && to != nullptr, "Both events must be recorded before calculating elapsed time.");
    TORCH_CHECK(event_at(from).timed && event_at(to).timed, "Both events must be created with enable_timing=True.");
    const MarkPtr start = last_of(from), end = last_of(to);
    TORCH_CHECK(start->passed() && end->passed(), "asyncdev error: device not ready");
    return std::chrono::duration<float, std::milli>(end->at() - start->at()).count();  // a float32, as CUDA gives
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return device_count() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex index) const override { return device(index).used; }
  c10::DeviceIndex deviceCount() const override { return guard_.deviceCount(); }
  void setCurrentDevice(c10::DeviceIndex index) const override { guard_.setDevice({c10::kPrivateUse1, index}); }
  c10::DeviceIndex getCurrentDevice() const override { return current_index; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    const auto before = current_index;
    if (index >= 0) setCurrentDevice(index);
    return before;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override { return exchangeDevice(index); }

  // Random numbers are the host's: operators compute there.
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    return at::detail::getDefaultCPUGenerator();
  }
  at::Generator getNewGenerator(c10::DeviceIndex) const override { return at::detail::createCPUGenerator(); }

  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return pinned_allocator(); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    const c10::Device on = storage.device();
    const c10::OptionalDeviceGuard current(on);
    guard_.synchronizeStream(guard_.getStream(on));  // the values are moved by the host
    c10::StorageImpl* resized = storage.unsafeGetStorageImpl();
    at::native::resize_bytes_cpu(resized, bytes);
    if (bytes == 0) resized->set_data_ptr_noswap(c10::DataPtr(nullptr, on));  // else it would be the host's
  }

 private:
  Guard guard_;
};

const bool hooked = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  return true;
}();

}  // namespace

}  // namespace async_device
