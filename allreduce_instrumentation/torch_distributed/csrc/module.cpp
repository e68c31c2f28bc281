/* The module of Python: the class of groups, that of handles, and the call by which Python uses a group. */
#include <torch/csrc/autograd/python_variable.h>

#include "group.h"

namespace timing {

/* What an object of Python holds a group by. To destroy a group is to join the threads of its backends, which may want
 * the interpreter's lock. */
template <class T>
class HeldByPython {
 public:
  HeldByPython() = default;
  explicit HeldByPython(T* made) : held_(c10::intrusive_ptr<T>::unsafe_steal_from_new(made)) {}
  HeldByPython(c10::intrusive_ptr<T> held) : held_(std::move(held)) {}
  HeldByPython(HeldByPython&&) = default;
  HeldByPython(const HeldByPython&) = default;
  HeldByPython& operator=(HeldByPython&&) = default;
  HeldByPython& operator=(const HeldByPython&) = default;

  ~HeldByPython() {
    if (held_ && PyGILState_Check()) {
      py::gil_scoped_release no_lock;
      held_.reset();
    }
  }

  T* get() const { return held_.get(); }

 private:
  c10::intrusive_ptr<T> held_; /* alone: torch reads the holder of any group as such a pointer */
};

}  // namespace timing

PYBIND11_DECLARE_HOLDER_TYPE(T, timing::HeldByPython<T>, true)

using namespace timing;

namespace {

const at::Tensor* tensor_of(PyObject* given) {
  return THPVariable_CheckExact(given) ? &THPVariable_Unpack(given) : nullptr;
}

/* The only tensor of a list. */
const at::Tensor* tensor_of_list(PyObject* given) {
  return PyList_CheckExact(given) && PyList_GET_SIZE(given) == 1 ? tensor_of(PyList_GET_ITEM(given, 0)) : nullptr;
}

/* Returns the options if they are of this class; null otherwise. */
template <class Options>
const Options* options_of(PyObject* given) {
  py::detail::make_caster<Options> caster;
  return caster.load(given, false) ? &py::detail::cast_op<Options&>(caster) : nullptr;
}

/* What Python gives for a call. */
struct Given {
  Group& group;
  Method method;
  PyObject* args; /* a tuple, without the group */

  PyObject* operator[](Py_ssize_t place) const { return PyTuple_GET_ITEM(args, place); }
};

/* Issues a call, and returns its work; null if Python has to issue it. */
template <class Issue>
py::object issue(const Given& given, Call call, const Issue& issue) {
  if (!given.group.takes(call))
    return {};
  if (call.has_row)
    given.group.find_layer(call);
  WorkPtr work;
  {
    py::gil_scoped_release no_lock;
    work = given.group.run(call, issue);
  }
  return py::cast(std::move(work));
}

template <class Options>
py::object of_list(const Given& given, WorkPtr (c10d::ProcessGroup::*send)(std::vector<at::Tensor>&, const Options&)) {
  const at::Tensor* tensor = tensor_of_list(given[0]);
  const Options* options = tensor ? options_of<Options>(given[1]) : nullptr;
  if (options == nullptr)
    return {};
  std::vector<at::Tensor> tensors{*tensor};
  Call call{given.method, &tensors[0], options->asyncOp};
  if constexpr (!std::is_same_v<Options, c10d::AllreduceOptions>)
    call.root = options->rootRank;
  return issue(given, std::move(call), [&] { return (given.group.untimed().get()->*send)(tensors, *options); });
}

template <class Options>
py::object of_pair(const Given& given, WorkPtr (c10d::ProcessGroup::*send)(at::Tensor&, at::Tensor&, const Options&)) {
  const at::Tensor *received = tensor_of(given[0]), *sent = tensor_of(given[1]);
  const Options* options = received && sent ? options_of<Options>(given[2]) : nullptr;
  if (options == nullptr)
    return {};
  at::Tensor into = *received, from = *sent;
  Call call{given.method, &from, options->asyncOp};
  return issue(given, std::move(call), [&] { return (given.group.untimed().get()->*send)(into, from, *options); });
}

py::object issue(const Given& given) {
  using PG = c10d::ProcessGroup;
  switch (given.method) {
    case ALLREDUCE:
      return of_list<c10d::AllreduceOptions>(given, &PG::allreduce);
    case BROADCAST:
      return of_list<c10d::BroadcastOptions>(given, &PG::broadcast);
    case REDUCE:
      return of_list<c10d::ReduceOptions>(given, &PG::reduce);
    case ALLGATHER:
      return of_pair<c10d::AllgatherOptions>(given, &PG::ALL_GATHER_SINGLE);
    case REDUCE_SCATTER:
      return of_pair<c10d::ReduceScatterOptions>(given, &PG::REDUCE_SCATTER_SINGLE);
    default:
      return {};
  }
}

/* issue(method, group, args): returns the work, or NotImplemented if Python has to issue the call. */
PyObject* issue_for_python(PyObject*, PyObject* const* args, Py_ssize_t n_args) {
  HANDLE_TH_ERRORS
  if (n_args != 3 || !PyTuple_CheckExact(args[2]))
    throw py::type_error("issue() takes a method, a group and a tuple");
  auto method = static_cast<Method>(PyLong_AsLong(args[0]));
  py::detail::make_caster<Group> group;
  py::object work;
  Py_ssize_t n_given = PyTuple_GET_SIZE(args[2]);
  if (n_given == (method <= REDUCE ? 2 : 3) && group.load(args[1], false))
    work = issue(Given{py::detail::cast_op<Group&>(group), method, args[2]});
  return work ? work.release().ptr() : Py_NewRef(Py_NotImplemented);
  END_HANDLE_TH_ERRORS
}

PyMethodDef ISSUE = {"issue", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&issue_for_python)), METH_FASTCALL, nullptr};

}  // namespace

PYBIND11_MODULE(TIMING_MODULE, module) {
  py::module_::import("torch._C._distributed_c10d");
  py::dict methods; /* by torch's names for them */
  methods["allreduce"] = static_cast<int>(ALLREDUCE);
  methods["broadcast"] = static_cast<int>(BROADCAST);
  methods["reduce"] = static_cast<int>(REDUCE);
  methods["all_gather_single"] = static_cast<int>(ALLGATHER);
  methods["_allgather_base"] = static_cast<int>(ALLGATHER);
  methods["reduce_scatter_single"] = static_cast<int>(REDUCE_SCATTER);
  methods["_reduce_scatter_base"] = static_cast<int>(REDUCE_SCATTER);
  module.attr("METHODS") = methods;
  py::class_<Group, c10d::ProcessGroup, HeldByPython<Group>>(module, "Group")
      .def(py::init<int, int>())
      .def("_time", &Group::time)
      .def("_leave_to_python", &Group::leave_to_python)
      .def("_name_buckets", &Group::name_buckets);
  py::class_<TimedWork, c10d::Work, c10::intrusive_ptr<TimedWork>>(module, "TimedWork")
      .def_property_readonly("untimed", [](const TimedWork& work) { return work.untimed(); });
  py::class_<TimedHostWork, TimedWork, c10::intrusive_ptr<TimedHostWork>>(module, "TimedHostWork");
  py::class_<TimedDeviceWork, TimedWork, c10::intrusive_ptr<TimedDeviceWork>>(module, "TimedDeviceWork");
  module.attr("issue") = py::reinterpret_steal<py::object>(PyCFunction_New(&ISSUE, nullptr));
}
