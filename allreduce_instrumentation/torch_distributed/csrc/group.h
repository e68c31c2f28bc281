/* The process group: what is common it times itself, without the interpreter; all else Python does. */
#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "buckets.h"
#include "fsdp_layers.h"
#include "timed_work.h"

namespace timing {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;

/* The methods that are timed here: those that send one tensor, alone or as the only element of a list. */
enum Method { ALLREDUCE, BROADCAST, REDUCE, ALLGATHER, REDUCE_SCATTER, N_METHODS };
inline constexpr std::array<const char*, N_METHODS> OPERATIONS = {
    "ALLREDUCE", "BCAST", "REDUCE", "ALLGATHER", "REDUCE_SCATTER",
};

/* A call: first as far as it can be known without its group, then by Group::takes. */
struct Call {
  Method method;
  const at::Tensor* sent;
  bool goes_on; /* in the background */
  std::optional<int64_t> root = std::nullopt;
  bool from_cpp = false; /* the call, as DDP's reducer makes it */
  bool has_row = false, is_bucket = false;
  std::optional<uint16_t> layer = std::nullopt; /* of FSDP2 */
  uint16_t layer_name = 0, phase = 0; /* of the label that is in force */
  bool is_labelled = false, names_layer = false;
  StreamInterval interval = {}; /* if it is timed in the stream of a device */
};

class Group : public c10d::ProcessGroup {
 public:
  using ProcessGroup::ProcessGroup;

  /* Times the common calls here from now on.
   *
   * untimed: the group that does the work, of torch's own class.
   * recorder: a recorder over the native core.
   * identity: the group's name, size and count of collectives.
   * has_streams: whether some of its backends work in the streams of a device.
   * timed_in_streams: the types of those devices of which the operations are timed here, too.
   * reserve: makes intervals for a stream.
   *
   * Throws if the native core is of another build, or its ring has no room for names. */
  void time(
      c10::intrusive_ptr<ProcessGroup> untimed, const py::object& recorder, const py::object& identity,
      bool has_streams, const std::vector<std::string>& timed_in_streams, const py::object& reserve) {
    auto recording = std::make_shared<Recorder>(recorder);
    uint16_t group = recording->name(py::cast<std::string>(identity.attr("name")));
    for (int method = 0; method < N_METHODS; method++)
      for (const char* kind : {"", "I"}) {
        Names& names = names_[method][*kind != 0];
        names.fill(recording->blank);
        names[OPERATION] = recording->name(kind + std::string(OPERATIONS[method]));
        names[CLOCK] = recording->host;
        names[GROUP] = group;
        names[STATUS] = recording->ok;
      }
    group_size_ = py::cast<int64_t>(identity.attr("size"));
    count_ = reinterpret_cast<int64_t*>(py::cast<uintptr_t>(identity.attr("address")));
    has_streams_ = has_streams;
    for (const std::string& type : timed_in_streams)
      if (TIMES_DEVICES)
        timed_in_streams_.push_back(c10::Device(type).type());
    Reserves::of_process().make_by(reserve);
    follow_fsdp();
    untimed_ = std::move(untimed);
    identity_ = std::make_unique<Kept>(identity);
    recorder_ = std::move(recording);
    is_timing_ = true;
  }

  /* Leaves all calls to Python: for as long as they are coalesced, or for good. */
  void leave_to_python(bool leaves) { is_timing_ = recorder_ && !leaves; }

  /* The names of DDP's buckets and how many entries each has; none as long as Python has to name them. Throws if there
   * is no room for the names. */
  void name_buckets(const std::vector<std::pair<std::string, int64_t>>& buckets) {
    std::vector<Bucket> made;
    for (const auto& [name, entries] : buckets)
      made.push_back({recorder_->name(name), entries});
    layouts_.push_back(made.empty() ? nullptr : std::make_unique<Buckets>(std::move(made)));
    buckets_ = layouts_.back().get();
    python_names_buckets_ = buckets.empty();
  }

  /* Whether a call may be timed here; if so, it has to be. Notes whether it has a row, its label and its interval. */
  bool takes(Call& call) const {
    if (!is_timing_ || !is_plain(*call.sent) || !__atomic_load_n(&recorder_->state().is_plain, __ATOMIC_ACQUIRE))
      return false;
    if ((call.method == ALLREDUCE && python_names_buckets_ && current_pass() != NO_PASS) || !has_plain_label(call))
      return false;
    call.has_row = __atomic_load_n(&recorder_->state().is_on, __ATOMIC_RELAXED);
    return call.sent->device().is_cpu() || !call.has_row || has_interval(call);
  }

  /* Notes for which layer of FSDP2 a call of Python is that has a row. With the interpreter's lock. */
  void find_layer(Call& call) { call.layer = layers_.current(*recorder_); }

  const c10::intrusive_ptr<ProcessGroup>& untimed() const { return untimed_; }

  /* Issues a call that takes() was true of. */
  template <class Issue>
  WorkPtr run(Call& call, const Issue& issue) {
    if (!call.has_row && (call.goes_on || has_streams_))
      return counted(issue);
    Slot row;
    fill(row, call);
    if (call.interval)
      return in_stream(call, row, issue);
    return call.goes_on ? in_background(call, row, issue) : at_once(row, call.has_row, issue);
  }

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    if (tensors.size() == 1) {
      Call call{ALLREDUCE, &tensors[0], options.asyncOp};
      call.from_cpp = true;
      if (takes(call))
        return run(call, [&] { return untimed_->allreduce(tensors, options); });
    }
    return by_python("allreduce", [&] { return ProcessGroup::allreduce(tensors, options); }, tensors, options);
  }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    if (tensors.size() == 1) {
      Call call{BROADCAST, &tensors[0], options.asyncOp, options.rootRank};
      if (takes(call))
        return run(call, [&] { return untimed_->broadcast(tensors, options); });
    }
    return by_python("broadcast", [&] { return ProcessGroup::broadcast(tensors, options); }, tensors, options);
  }

  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override {
    return by_python(
        "allreduce_coalesced", [&] { return ProcessGroup::allreduce_coalesced(tensors, options); }, tensors, options);
  }

  WorkPtr allgather(
      std::vector<Tensors>& received, Tensors& sent, const c10d::AllgatherOptions& options) override {
    return by_python(
        "allgather", [&] { return ProcessGroup::allgather(received, sent, options); }, received, sent, options);
  }

  WorkPtr ALL_GATHER_SINGLE_COALESCED(
      Tensors& received, Tensors& sent, const c10d::AllgatherOptions& options) override {
    return by_python(
        NAME_OF(ALL_GATHER_SINGLE_COALESCED),
        [&] { return ProcessGroup::ALL_GATHER_SINGLE_COALESCED(received, sent, options); }, received, sent, options);
  }

  WorkPtr reduce_scatter(
      Tensors& received, std::vector<Tensors>& sent, const c10d::ReduceScatterOptions& options) override {
    return by_python(
        "reduce_scatter", [&] { return ProcessGroup::reduce_scatter(received, sent, options); }, received, sent,
        options);
  }

  WorkPtr REDUCE_SCATTER_SINGLE_COALESCED(
      Tensors& received, Tensors& sent, const c10d::ReduceScatterOptions& options) override {
    return by_python(
        NAME_OF(REDUCE_SCATTER_SINGLE_COALESCED),
        [&] { return ProcessGroup::REDUCE_SCATTER_SINGLE_COALESCED(received, sent, options); }, received, sent,
        options);
  }

  WorkPtr ALL_TO_ALL_SINGLE(
      at::Tensor& received, at::Tensor& sent, std::vector<int64_t>& received_sizes, std::vector<int64_t>& sent_sizes,
      const c10d::AllToAllOptions& options) override {
    return by_python(
        NAME_OF(ALL_TO_ALL_SINGLE),
        [&] { return ProcessGroup::ALL_TO_ALL_SINGLE(received, sent, received_sizes, sent_sizes, options); },
        received, sent, received_sizes, sent_sizes, options);
  }

  WorkPtr barrier(const c10d::BarrierOptions& options) override {
    return by_python("barrier", [&] { return ProcessGroup::barrier(options); }, options);
  }

  WorkPtr send(Tensors& tensors, int receiver, int tag) override {
    return by_python("send", [&] { return ProcessGroup::send(tensors, receiver, tag); }, tensors, receiver, tag);
  }

  WorkPtr recv(Tensors& tensors, int sender, int tag) override {
    return by_python("recv", [&] { return ProcessGroup::recv(tensors, sender, tag); }, tensors, sender, tag);
  }

 private:
  /* Has the method of the class in Python make a call of C++'s. Where no object of Python stands for the group any
   * more, it is made untimed, as torch does. */
  template <class Untimed, class... Arguments>
  WorkPtr by_python(const char* name, const Untimed& untimed, const Arguments&... arguments) {
    {
      py::gil_scoped_acquire lock;
      if (py::function method = py::get_override(static_cast<const Group*>(this), name))
        return work_of(method(arguments...));
    }
    return untimed();
  }

  static WorkPtr work_of(const py::object& made) {
    if (made.is_none())
      return {};
    return c10::make_intrusive<WorkOfPython>(made);
  }

  bool is_plain(const at::Tensor& tensor) const {
    return tensor.defined() && tensor.layout() == at::kStrided &&
        !tensor.unsafeGetTensorImpl()->is_python_dispatch() &&
        (tensor.device().is_cpu() || is_timed_in_streams(tensor.device().type()));
  }

  bool is_timed_in_streams(c10::DeviceType type) const {
    return std::find(timed_in_streams_.begin(), timed_in_streams_.end(), type) != timed_in_streams_.end();
  }

  /* Takes an interval for a call; there is none for one that Python has to see, as one that is captured. */
  static bool has_interval(Call& call) {
    c10::Stream stream = current_stream(call.sent->device());
    if (!IS_CAPTURING(stream))
      call.interval = StreamInterval(stream);
    return static_cast<bool>(call.interval);
  }

  /* Puts everything that is known before the call begins. */
  void fill(Slot& row, Call& call) {
    std::memset(&row, 0, sizeof row);
    recording_state(&recorder_->state(), &row);
    row.end_ns = -1;
    set(row, MESSAGE_SIZE_BYTES, static_cast<int64_t>(call.sent->nbytes()));
    set(row, GROUP_SIZE, group_size_);
    if (call.root)
      set(row, PEER, *call.root);
    const Names& names = names_[call.method][call.goes_on];
    std::copy(names.begin(), names.end(), row.names);
    if (call.interval)
      row.names[CLOCK] = recorder_->device;
    row.names[THREAD] = recorder_->thread();
    if (call.is_labelled) {
      row.names[LAYER_NAME] = call.layer_name;
      row.names[PHASE] = call.phase;
    }
    if (!call.names_layer && !put_bucket(row, call) && call.layer)
      row.names[LAYER_NAME] = *call.layer;
  }

  static void set(Slot& row, int which, int64_t number) {
    row.numbers[which] = number;
    row.has |= HAS(which);
  }

  /* Whether no label is in force, or one that a slot can hold: a program may give any object for a name. */
  bool has_plain_label(Call& call) const {
    const Recording& state = recorder_->state();
    if (!__atomic_load_n(&state.has_labels, __ATOMIC_RELAXED))
      return true;
    py::gil_scoped_acquire lock;
    int names_layer = state.label(state.recorder, &call.layer_name, &call.phase);
    call.is_labelled = names_layer >= 0;
    call.names_layer = names_layer > 0;
    return call.is_labelled;
  }

  bool put_bucket(Slot& row, Call& call) {
    Buckets* buckets = call.method == ALLREDUCE ? buckets_.load() : nullptr;
    int pass = buckets ? current_pass() : NO_PASS;
    const uint16_t* name = pass == NO_PASS ? nullptr : buckets->next(call.sent->numel(), pass);
    call.is_bucket = name != nullptr;
    if (call.is_bucket)
      row.names[LAYER_NAME] = *name;
    return call.is_bucket;
  }

  /* Issues a call that has no row: its number counts. */
  template <class Issue>
  WorkPtr counted(const Issue& issue) {
    count_next(count_);
    try {
      return issue();
    } catch (...) {
      count_back(count_);
      throw;
    }
  }

  template <class Issue>
  WorkPtr at_once(Slot& row, bool has_row, const Issue& issue) {
    set(row, SEQ, count_next(count_));
    row.start_ns = perf_counter_ns();
    Listed listed(*recorder_, row, has_row, 0);
    WorkPtr work;
    try {
      work = issue();
      if (work)
        work->wait();
    } catch (...) {
      row.end_ns = perf_counter_ns();
      fail(row, listed.take() && has_row, work, std::current_exception());
      throw;
    }
    row.end_ns = perf_counter_ns();
    row.has |= HAS_END;
    if (listed.take() && has_row)
      ring_put(recorder_->ring(), &row);
    return work;
  }

  /* The call raised, or the wait for its operation did, which then may go on. */
  void fail(Slot& row, bool has_row, const WorkPtr& work, const std::exception_ptr& failure) {
    if (!work) {
      count_back(count_);
      row.has &= ~HAS(SEQ);
      row.numbers[SEQ] = 0;
    }
    bool is_over = !work || work->isCompleted();
    row.names[STATUS] = is_over ? recorder_->status_of(failure) : recorder_->unresolved;
    if (is_over)
      row.has |= HAS_END;
    if (has_row)
      ring_put(recorder_->ring(), &row);
  }

  /* Issues a call whose operation has begun; the row says so if it raises, and then its number does not count. */
  template <class OfOperation, class Issue>
  WorkPtr issued(OfOperation& operation, const Issue& issue) {
    try {
      return issue();
    } catch (...) {
      count_back(count_);
      operation.refuse(std::current_exception());
      throw;
    }
  }

  template <class Issue>
  WorkPtr in_background(const Call& call, Slot& row, const Issue& issue) {
    set(row, SEQ, count_next(count_));
    row.start_ns = perf_counter_ns();
    auto operation = std::make_shared<Operation>(recorder_, row);
    WorkPtr work = issued(*operation, issue);
    if (!work) {
      operation->end_now(nullptr);
      return work;
    }
    return handle<TimedHostWork>(call, work, operation, future_of(call.method, work));
  }

  /* Issues a call whose operation its backend queues. Outside of a backward pass its future is left alone: a callback
   * would tie the outputs to one more stream, so that memory which is freed early could not be used again at once. */
  template <class Issue>
  WorkPtr in_stream(Call& call, Slot& row, const Issue& issue) {
    set(row, SEQ, count_next(count_));
    row.start_ns = perf_counter_ns();
    call.interval.begin();
    auto operation = std::make_shared<DeviceOperation>(recorder_, row, std::move(call.interval), call.goes_on);
    WorkPtr work = issued(*operation, issue);
    if (!work) { /* all of it is in the current stream */
      operation->end_now(nullptr);
      return work;
    }
    bool is_waited_by_pass = call.goes_on && current_pass() != NO_PASS;
    return handle<TimedDeviceWork>(call, work, operation, is_waited_by_pass ? future_of(call.method, work) : FuturePtr());
  }

  /* Null if works of this method have none. */
  FuturePtr future_of(Method method, const WorkPtr& work) {
    if (!has_no_future_[method]) {
      try {
        return work->getFuture();
      } catch (std::exception&) {
        has_no_future_[method] = true; /* to ask in vain is slow */
      }
    }
    return {};
  }

  /* Returns what the caller gets to wait for: a timed handle on `work`. The reducer only takes the future of what it
   * gets, so it gets the backend's own work. The future, if there is one, tells the end even if nobody waits. */
  template <class Handle, class OfOperation>
  static WorkPtr handle(const Call& call, const WorkPtr& work, const OfOperation& operation, const FuturePtr& future) {
    if (future)
      end_by(operation, *future);
    if (!(future && call.from_cpp && call.is_bucket))
      return c10::make_intrusive<Handle>(work, operation, static_cast<bool>(future));
    note_use_in_backward(operation, future);
    return work;
  }

  std::atomic<bool> is_timing_{false}, python_names_buckets_{false};
  bool has_streams_ = false;
  std::vector<c10::DeviceType> timed_in_streams_;
  RecorderPtr recorder_;
  c10::intrusive_ptr<ProcessGroup> untimed_;
  std::unique_ptr<Kept> identity_;
  int64_t* count_ = nullptr;
  int64_t group_size_ = 0;
  using Names = std::array<uint16_t, N_NAMES>;
  std::array<std::array<Names, 2>, N_METHODS> names_{}; /* of a row, at once and in the background */
  std::array<std::atomic<bool>, N_METHODS> has_no_future_{};
  FsdpLayers layers_;
  std::atomic<Buckets*> buckets_{nullptr};
  std::vector<std::unique_ptr<Buckets>> layouts_; /* that one and all before, which a thread may still read */
};

}  // namespace timing
