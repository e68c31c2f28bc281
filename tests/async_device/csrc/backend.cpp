// A backend of torch.distributed whose methods are those of a Python object, and its works, which queue as NCCL's do.
#include <ATen/core/ivalue.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/utils/pybind.h>

#include "streams.h"

namespace async_device {

namespace {

using c10d::Work;
using WorkPtr = c10::intrusive_ptr<Work>;
using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<std::vector<at::Tensor>>;

// When there is a future. As nccl2's, it is made for who asks, whose stream waits for the work then.
enum class Future { None, AtOnce, ForWhoAsks };

Stream& stream_of(const c10::Stream& stream) {
  return device(stream.device_index()).stream(stream.id());
}

// All that `stream` holds when this is made. It lasted since `start`, if that is known. It stands still at `gate`, if
// there is one, until a stream has come to a wait for this.
class StreamWork final : public Work {
 public:
  StreamWork(c10::Stream stream, Tensors outputs, bool host_waits, Future future, std::optional<c10::Event> start,
             MarkPtr gate)
      : stream_(stream),
        outputs_(std::move(outputs)),
        host_waits_(host_waits),
        for_who_asks_(future == Future::ForWhoAsks),
        start_(std::move(start)),
        gate_(std::move(gate)),
        end_(timed_event()) {
    end_.record(stream_);
    if (future == Future::AtOnce) complete_future(stream_);
  }

  static c10::Event timed_event() { return c10::Event(c10::kPrivateUse1, c10::EventFlag::BACKEND_DEFAULT); }

  bool isCompleted() override { return end_.query(); }
  bool isSuccess() const override { return true; }
  Tensors result() override { return outputs_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {  // null if it has none
    if (for_who_asks_ && !future_) {
      synchronize();
      complete_future(c10::impl::VirtualGuardImpl(c10::kPrivateUse1).getStream(stream_.device()));
    }
    return future_;
  }
  float getDuration() const override {
    TORCH_CHECK(start_.has_value(), "getDuration only works if timing was enabled");
    TORCH_CHECK(end_.query(), "getDuration only works after the work has completed");
    return static_cast<float>(start_->elapsedTime(end_));
  }
  void synchronize() override {
    const c10::Stream current = c10::impl::VirtualGuardImpl(c10::kPrivateUse1).getStream(stream_.device());
    if (MarkPtr gate = std::exchange(gate_, nullptr)) stream_of(current).add([gate] { gate->pass(); });
    end_.block(current);
  }
  void blockCurrentStream() override { synchronize(); }
  bool wait(std::chrono::milliseconds) override {
    synchronize();
    if (host_waits_) end_.synchronize();
    return true;
  }

 private:
  void complete_future(c10::Stream stream) {
    future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()),
                                                       std::vector<c10::Device>{stream.device()});
    const c10::StreamGuard guard(stream);
    future_->markCompleted(outputs_);  // it records an event in the stream that is current
  }

  c10::Stream stream_;
  Tensors outputs_;
  bool host_waits_, for_who_asks_;
  std::optional<c10::Event> start_;
  MarkPtr gate_;
  c10::Event end_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

// Each method is the Python object's method of the same name. It gives a work, or None where it was queued in the
// current stream.
class PythonBackend final : public c10d::Backend {
 public:
  PythonBackend(const py::object& methods, int rank, int size, std::string name)
      : Backend(rank, size), methods_(methods.inc_ref()), name_(std::move(name)) {}  // kept: it may outlive Python

  const std::string getBackendName() const override { return name_; }
  bool supportsCoalescing() const override { return true; }
  void enableCollectivesTiming() override { call("enable_timing"); }

  void startCoalescing() override { call("start_coalescing"); }
  WorkPtr endCoalescing() override { return call("end_coalescing"); }
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) override {
    return call("broadcast", tensors, opts);
  }
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) override {
    return call("allreduce", tensors, opts);
  }
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) override {
    return call("allreduce_coalesced", tensors, opts);
  }
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& opts) override {
    return call("reduce", tensors, opts);
  }
  WorkPtr allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) override {
    return call("allgather", outputs, inputs, opts);
  }
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& opts) override {
    return call("_allgather_base", output, input, opts);
  }
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& opts) override {
    return call("allgather_into_tensor_coalesced", outputs, inputs, opts);
  }
  WorkPtr gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& opts) override {
    return call("gather", outputs, inputs, opts);
  }
  WorkPtr scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& opts) override {
    return call("scatter", outputs, inputs, opts);
  }
  WorkPtr reduce_scatter(Tensors& outputs, TensorLists& inputs, const c10d::ReduceScatterOptions& opts) override {
    return call("reduce_scatter", outputs, inputs, opts);
  }
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& opts) override {
    return call("_reduce_scatter_base", output, input, opts);
  }
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& opts) override {
    return call("reduce_scatter_tensor_coalesced", outputs, inputs, opts);
  }
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_sizes,
                        std::vector<int64_t>& sizes, const c10d::AllToAllOptions& opts) override {
    return call("alltoall_base", output, input, output_sizes, sizes, opts);
  }
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) override {
    return call("alltoall", outputs, inputs, opts);
  }
  WorkPtr send(Tensors& tensors, int to, int tag) override { return call("send", tensors, to, tag); }
  WorkPtr recv(Tensors& tensors, int source, int tag) override { return call("recv", tensors, source, tag); }
  WorkPtr barrier(const c10d::BarrierOptions& opts) override { return call("barrier", opts); }

 private:
  template <class... Args>
  WorkPtr call(const char* method, Args&... args) {
    const py::gil_scoped_acquire held;
    const py::object made = methods_.attr(method)(args...);
    return made.is_none() ? WorkPtr() : made.cast<WorkPtr>();
  }

  py::handle methods_;
  std::string name_;
};

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("backend", [](const py::object& methods, int rank, int size, const std::string& name) {
    return c10::intrusive_ptr<c10d::Backend>(c10::make_intrusive<PythonBackend>(methods, rank, size, name));
  });
  py::enum_<Future>(m, "Future")
      .value("NONE", Future::None)
      .value("AT_ONCE", Future::AtOnce)
      .value("FOR_WHO_ASKS", Future::ForWhoAsks);
  // `queue` queues what the work is about in `stream`, `from_the_wait` behind a gate.
  m.def("work", [](const c10::Stream& stream, Tensors outputs, const py::function& queue, bool host_waits,
                   Future future, bool measured, bool from_the_wait) {
    std::optional<c10::Event> start;
    MarkPtr gate;
    if (from_the_wait) {
      gate = std::make_shared<Mark>();
      const py::gil_scoped_release released;
      stream_of(stream).wait_for(gate);
    }
    if (measured) {
      start = StreamWork::timed_event();
      const py::gil_scoped_release released;  // a mark may have to wait for room in the stream
      start->record(stream);
    }
    queue();
    const py::gil_scoped_release released;
    return WorkPtr(
        c10::make_intrusive<StreamWork>(stream, std::move(outputs), host_waits, future, std::move(start), gate));
  });
}

}  // namespace async_device
