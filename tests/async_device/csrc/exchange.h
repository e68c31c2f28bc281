// Ranks of one machine exchange bytes, as files in a directory that they share.
#pragma once

#include <cstddef>
#include <string>

namespace async_device {

// Leave `bytes` bytes for whoever takes `name`.
void leave(const std::string& name, const void* data, size_t bytes);

// Wait for what somebody leaves under `name`, and take it. Throws if it has another size, or does not come.
void take(const std::string& name, void* data, size_t bytes);

}  // namespace async_device
