/* The layer of FSDP2 that a call is for. FSDP2 marks what it does for a layer by ranges for profilers, such as
 * "FSDP::all_gather (layers.3)": to see them is quicker than to find its methods on the stack, as Python does. */
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <ATen/record_function.h>

#include "recorder.h"

namespace timing {

/* The ranges in which FSDP2 issues collectives: their names, before the module's. */
inline constexpr std::array<std::string_view, 2> RANGES_OF_FSDP = {"FSDP::all_gather", "FSDP::post_backward_reduce"};

/* Returns the name of the layer in that of such a range; nothing for any other range.
 *
 * The root has no name, and groups of other sizes are named behind: "FSDP::all_gather (layers.3) [pg=2]". */
inline std::optional<std::string_view> layer_in(std::string_view range) {
  for (std::string_view kind : RANGES_OF_FSDP) {
    if (!range.starts_with(kind))
      continue;
    std::string_view rest = range.substr(kind.size());
    size_t end = rest.rfind(')');
    if (rest.starts_with(" (") && end != rest.npos)
      return rest.substr(2, end - 2);
    if (rest.empty() || rest.starts_with(" ["))
      return "(root)";
  }
  return {};
}

/* The layer of the range that the calling thread is in; empty outside of all. */
inline std::string& current_layer() {
  static thread_local std::string layer;
  return layer;
}

/* Follows the ranges of this process's threads from the first call on. */
inline void follow_fsdp() {
  static const at::CallbackHandle FOLLOWED = at::addGlobalCallback(
      at::RecordFunctionCallback(
          [](const at::RecordFunction& range) -> std::unique_ptr<at::ObserverContext> {
            if (auto layer = layer_in(range.name()))
              current_layer() = *layer;
            return nullptr;
          },
          [](const at::RecordFunction& range, at::ObserverContext*) {
            if (layer_in(range.name()))
              current_layer().clear();
          })
          .scopes({at::RecordScope::USER_SCOPE}));
  (void)FOLLOWED;
}

/* The names of layers in one ring, each looked up once. Used with the interpreter's lock, which also guards it. */
class FsdpLayers {
 public:
  /* Returns the name of the current layer; nothing if there is none, or no room for it in the ring. */
  std::optional<uint16_t> current(const Recorder& recorder) {
    const std::string& layer = current_layer();
    if (layer.empty())
      return {};
    auto known = names_.find(layer);
    if (known != names_.end())
      return known->second;
    py::str text("fsdp:" + layer);
    int name = recorder.state().name(recorder.state().channel, text.ptr());
    if (name < 0)
      return {};
    return names_.emplace(layer, static_cast<uint16_t>(name)).first->second;
  }

 private:
  std::map<std::string, uint16_t> names_;
};

}  // namespace timing
