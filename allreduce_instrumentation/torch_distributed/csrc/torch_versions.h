/* What differs between the versions of torch. */
#pragma once

#include <torch/version.h>

#define TORCH_SINCE(minor) (TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= (minor))

#if TORCH_SINCE(13)
#define ALL_GATHER_SINGLE all_gather_single
#define ALL_GATHER_SINGLE_COALESCED all_gather_single_coalesced
#define REDUCE_SCATTER_SINGLE reduce_scatter_single
#define REDUCE_SCATTER_SINGLE_COALESCED reduce_scatter_single_coalesced
#define ALL_TO_ALL_SINGLE all_to_all_single
#else
#define ALL_GATHER_SINGLE _allgather_base
#define ALL_GATHER_SINGLE_COALESCED allgather_into_tensor_coalesced
#define REDUCE_SCATTER_SINGLE _reduce_scatter_base
#define REDUCE_SCATTER_SINGLE_COALESCED reduce_scatter_tensor_coalesced
#define ALL_TO_ALL_SINGLE alltoall_base
#endif

#if TORCH_SINCE(12)
#define TIMES_DEVICES 1
#define IS_CAPTURING(stream) (stream).is_capturing()
#else /* only Python can ask whether a stream is being captured into a graph */
#define TIMES_DEVICES 0
#define IS_CAPTURING(stream) true
#endif

#define NAME_OF(method) NAME_OF_EXPANDED(method)
#define NAME_OF_EXPANDED(method) #method
