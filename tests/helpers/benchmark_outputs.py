"""What benchmarks of communication print, shortened, for tests."""

NCCL_TESTS = """\
# nThread 1 nGpus 4 minBytes 1024 maxBytes 16777216 step: 4(factor) warmup iters: 5 iters: 20 validate: 1
#
# Using devices
#  Rank  0 Group  0 Pid  10 on node0 device  0 [0x07] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid  10 on node0 device  1 [0x0b] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           0             0     float     sum      -1     5.10    0.00    0.00      0     5.00    0.00    0.00
        1024           256     float     sum      -1    10.24    0.10    0.10      0    10.00    0.10    0.10
     1048576        262144     float     sum      -1   104.86   10.00   10.00      0   104.00   10.00   10.00
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 5.05
"""

OSU = """\
some launcher: a line before

# OSU MPI Allreduce Latency Test v7.5
# Datatype: MPI_INT.
# Size       Avg Latency(us)
4                      10.05
1024                   10.24
1048576               104.86
# OSU MPI-CUDA All-to-All Personalized Exchange Latency Test v7.5
# Size       Avg Latency(us)
1024                   40.96
# OSU MPI Bandwidth Test v7.5
# Size      Bandwidth (MB/s)
1048576             10000.00
# OSU MPI Barrier Latency Test v7.5
# Avg Latency(us)
             1.18
"""

IMB = """\
# List of Benchmarks to run:
# Allreduce
#----------------------------------------------------------------
# Benchmarking Allreduce
# #processes = 2
# ( 2 additional processes waiting in MPI_Barrier)
#----------------------------------------------------------------
       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]
            0         1000         0.03         0.03         0.03
         1024         1000         9.00        11.00        10.24
      1048576           10       100.00       110.00       104.86
#---------------------------------------------------
# Benchmarking PingPong
# #processes = 2
#---------------------------------------------------
       #bytes #repetitions      t[usec]   Mbytes/sec
      1048576           10       104.86     10000.00
"""
