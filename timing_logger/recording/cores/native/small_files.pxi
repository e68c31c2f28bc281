# Reading the kernel's small files: see timing_logger/recording/cores/python/small_files.py.

cdef extern from "csrc/small_files.h" nogil:
    ctypedef struct SmallFile:
        const char *path
        int descriptor
        uint64_t device
        uint64_t inode
        size_t n_bytes

    void read_small_files(SmallFile *const *files, size_t n_files, char *buffer, size_t n_buffer)
    void close_small_file(SmallFile *file)

from timing_logger.recording.cores.python.small_files import MOST_BYTES as _MOST_BYTES


cdef class KeptFile:
    cdef SmallFile file
    cdef bytes path

    def __cinit__(self, path):
        self.path = os.fsencode(path)
        self.file.path = PyBytes_AS_STRING(self.path)
        self.file.descriptor = -1

    def __dealloc__(self):
        close_small_file(&self.file)


cdef class SmallFiles:
    """Reads small files again and again, and keeps those open that were read the last time.

    One thread at a time reads; another may close them.
    """

    cdef dict _open

    def __init__(self):
        self._open = {}

    def read(self, paths):
        """Return the content of each file; b"" of one that is not there or cannot be read."""
        cdef KeptFile one
        cdef size_t i = 0, n_files = len(paths), n_buffer = _MOST_BYTES
        with cython.critical_section(self):
            opened = [self._open.get(path) or KeptFile(path) for path in paths]
            self._open = dict(zip(paths, opened))
        cdef char *buffer = <char *>malloc(n_buffer)
        cdef SmallFile **files = <SmallFile **>calloc(n_files + 1, sizeof(SmallFile *))
        cdef char *at = buffer
        try:
            if buffer == NULL or files == NULL:
                raise MemoryError("there is no memory for the content of these files")
            for one in opened:
                files[i] = &one.file
                i += 1
            with nogil:
                read_small_files(files, n_files, buffer, n_buffer)
            contents = []
            for one in opened:
                contents.append(at[: one.file.n_bytes])
                at += one.file.n_bytes
            return contents
        finally:
            free(buffer)
            free(files)

    def close(self):
        """Close all files."""
        with cython.critical_section(self):
            self._open = {}
