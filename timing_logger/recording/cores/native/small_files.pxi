# Reading the kernel's small files: see timing_logger/recording/cores/python/small_files.py.

cdef extern from "csrc/small_files.h" nogil:
    void read_small_files(const char *const *paths, size_t n_files, char *buffer, size_t n_buffer, size_t *n_bytes)

from timing_logger.recording.cores.python.small_files import MOST_BYTES as _MOST_BYTES


def read_files(paths):
    """Return the content of each file; b"" of one that is not there or cannot be read."""
    encoded = [os.fsencode(path) for path in paths]
    cdef size_t i, n_files = len(encoded), n_buffer = _MOST_BYTES
    cdef char *buffer = <char *>malloc(n_buffer)
    cdef size_t *n_bytes = <size_t *>calloc(n_files + 1, sizeof(size_t))
    cdef const char **names = <const char **>calloc(n_files + 1, sizeof(char *))
    cdef char *at = buffer
    try:
        if buffer == NULL or n_bytes == NULL or names == NULL:
            raise MemoryError("there is no memory for the content of these files")
        for i in range(n_files):
            names[i] = PyBytes_AS_STRING(encoded[i])
        with nogil:
            read_small_files(names, n_files, buffer, n_buffer, n_bytes)
        contents = []
        for i in range(n_files):
            contents.append(at[: n_bytes[i]])
            at += n_bytes[i]
        return contents
    finally:
        free(buffer)
        free(n_bytes)
        free(names)
