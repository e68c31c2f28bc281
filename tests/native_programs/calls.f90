! What a program in Fortran does with MPI, on two ranks.
program calls
  implicit none
  include 'mpif.h'
  integer :: rank, ranks, ierror, request, requests(2), index, flag_count, i
  integer :: status(MPI_STATUS_SIZE), statuses(MPI_STATUS_SIZE, 2), copy
  logical :: done
  real(8) :: sent(4), got(8)
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  sent = rank
  call MPI_Allreduce(sent, got, 4, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierror)
  call MPI_Allgather(MPI_IN_PLACE, 0, MPI_DOUBLE_PRECISION, got, 4, MPI_DOUBLE_PRECISION, MPI_COMM_WORLD, ierror)
  call MPI_Bcast(sent, 3, MPI_DOUBLE_PRECISION, 1, MPI_COMM_WORLD, ierror)
  call MPI_Ibarrier(MPI_COMM_WORLD, request, ierror)
  call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
  if (request /= MPI_REQUEST_NULL) error stop 3
  call MPI_Irecv(got, 4, MPI_DOUBLE_PRECISION, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, requests(1), ierror)
  call MPI_Isend(sent, 4, MPI_DOUBLE_PRECISION, 1 - rank, 1, MPI_COMM_WORLD, requests(2), ierror)
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, ierror)
  call MPI_Irecv(got, 4, MPI_DOUBLE_PRECISION, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, requests(1), ierror)
  call MPI_Isend(sent, 4, MPI_DOUBLE_PRECISION, 1 - rank, 2, MPI_COMM_WORLD, requests(2), ierror)
  call MPI_Waitall(2, requests, statuses, ierror)
  if (statuses(MPI_SOURCE, 1) /= 1 - rank) error stop 4
  call MPI_Irecv(got, 4, MPI_DOUBLE_PRECISION, 1 - rank, 3, MPI_COMM_WORLD, requests(1), ierror)
  requests(2) = MPI_REQUEST_NULL
  call MPI_Send(sent, 4, MPI_DOUBLE_PRECISION, 1 - rank, 3, MPI_COMM_WORLD, ierror)
  call MPI_Waitany(2, requests, index, status, ierror)
  if (index /= 1) error stop 5
  call MPI_Isend(sent, 4, MPI_DOUBLE_PRECISION, 1 - rank, 4, MPI_COMM_WORLD, request, ierror)
  call MPI_Recv(got, 4, MPI_DOUBLE_PRECISION, MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
  done = .false.
  do while (.not. done)
    call MPI_Test(request, done, MPI_STATUS_IGNORE, ierror)
  end do
  call MPI_Comm_dup(MPI_COMM_WORLD, copy, ierror)
  call MPI_Barrier(copy, ierror)
  call MPI_Comm_free(copy, ierror)
  if (rank == 0) print '(a)', 'done'
  call MPI_Finalize(ierror)
end program calls
