#!/usr/bin/env bash
# Builds the native core with sanitizers into build/sanitize and runs the tests that reach it over each build.
# Usage: tests/sanitize/run.sh PYTHON [address|thread|memcheck|groups ...]
#
# What was found is in files, which also processes that tests start, kill or expect to fail leave behind: one that
# is not empty is a failure, whatever the tests say.
set -euo pipefail
cd "$(dirname "$0")/../.."
python=$(realpath -s "$1")
shift
here=$PWD/tests/sanitize
built=$PWD/build/sanitize

# Everything that touches a ring, without jobs of mpiexec, what takes minutes even so, a limit on the memory that a
# sanitizer maps, and counts of page faults, of which a sanitizer has its own.
left_out="not job and not forks_under_load and not dataloader and not memory_the_system_refuses and not made_ready"
left_out+=" and not memory_of_the_next_ones_ready"
recording=(recording/cores/test_native_core.py schema/test_record.py recording/test_logger.py recording/test_sampling.py
    recording/test_open_calls.py reading/test_content_inflight.py faults/test_recovery.py faults/test_living.py
    faults/test_accounting.py faults/test_flush.py faults/test_fork.py faults/test_exit.py
    faults/test_fork_early.py recording/cores/test_calls_misused.py recording/cores/test_cores_agree.py)
threads=(recording/cores/test_native_core.py recording/test_open_calls.py faults/test_accounting.py faults/test_flush.py)
few=(recording/cores/test_native_core.py)

tools() { # what pip would fetch anew for each build
    [ -x "$built/tools/bin/cython" ] || {
        "$python" -m venv "$built/tools"
        "$built/tools/bin/pip" install --quiet --disable-pip-version-check "setuptools>=77" "cython>=3.3"
    }
}

build() { # NAME FLAGS: of a copy, as the objects of another build would be taken for this one's
    rm -rf "${built:?}/$1"
    mkdir -p "$built/$1/packages" "$built/$1/found"
    git ls-files -z timing_logger allreduce_instrumentation setup.py setup.cfg pyproject.toml README.md LICENSE |
        xargs -0 cp --parents -t "$built/$1/packages"
    (cd "$built/$1/packages" &&
        CFLAGS="-g -fno-omit-frame-pointer $2" "$built/tools/bin/python" setup.py --quiet build_ext --inplace &&
        ls timing_logger/recording/cores/native/core.*.so > /dev/null) # setup.py goes on without it
}

# The working directory is first on the path of a `python -c`; so it is the build's.
tests() { # NAME FILES, under the command in `under`
    local name=$1 failed=0
    shift
    (cd "$built/$name/packages" &&
        env PYTHONPATH="$PWD" TIMING_LOGGER_CORE=native PYTHONMALLOC=malloc "${under[@]}" \
            "$python" -m pytest -q -p no:cacheprovider -c ../../../../pyproject.toml --rootdir ../../../.. \
            --timeout 600 "${@/#/../../../../tests/}" -m "not slow" -k "$left_out") || failed=1
    count_reports "$name" || failed=1
    return $failed
}

count_reports() { # NAME: fails if there are some
    local reports
    mapfile -t reports < <(find "$built/$1/found" -type f -size +0)
    echo "== $1: ${#reports[@]} reports in build/sanitize/$1/found"
    [ ${#reports[@]} -eq 0 ] || {
        head -n 60 "${reports[0]}"
        return 1
    }
}

# A process that is to die of a signal in a test does so; leaks are CPython's, which frees little at its end.
address() {
    build address "-fsanitize=address,undefined"
    local options="log_path=$built/address/found/report:handle_segv=0:handle_abort=0:print_stacktrace=1"
    under=(env LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)"
        ASAN_OPTIONS="detect_leaks=0:$options" UBSAN_OPTIONS="$options")
    tests address "${recording[@]}"
}

thread() {
    build thread "-fsanitize=thread"
    # Without a fixed layout of memory the ThreadSanitizer of older compilers does not start on newer kernels.
    under=(setarch -R env LD_PRELOAD="$(gcc -print-file-name=libtsan.so)"
        TSAN_OPTIONS="log_path=$built/thread/found/report:die_after_fork=0")
    tests thread "${threads[@]}"
}

memcheck() {
    build memcheck ""
    under=(valgrind -q --log-file="$built/memcheck/found/report.%p" --suppressions="$here/memcheck.supp"
        --num-callers=30)
    tests memcheck "${few[@]}"
}

# Process groups in C++ under ThreadSanitizer, with the core. torch itself is built without: what it does is not looked
# at, but for the locks that it takes.
groups() {
    build groups "-fsanitize=thread"
    (cd "$built/groups/packages" &&
        CXX="c++ -fsanitize=thread" XDG_CACHE_HOME="$built/groups/cache" PYTHONPATH="$PWD" OMP_NUM_THREADS=1 \
            TIMING_LOGGER_GROUP=native LD_PRELOAD="$(gcc -print-file-name=libtsan.so)" \
            TSAN_OPTIONS="log_path=$built/groups/found/report:ignore_noninstrumented_modules=1:die_after_fork=0" \
            setarch -R timeout 900 "$python" "$here/groups_in_cpp.py" > "$built/groups/said") || {
        cat "$built/groups/said"
        return 1
    }
    cat "$built/groups/said"
    [ "$(grep -c '^native ' "$built/groups/said")" = 2 ] && count_reports groups
}

[ $# -gt 0 ] || set -- address thread memcheck groups
tools
for which in "$@"; do
    echo "== $which"
    $which
done
