! What a program in Fortran does with MPI_Pcontrol and matched messages, in each of the three bindings, alone.
program matched
#if defined(MPI_F08)
  use mpi_f08
  implicit none
  type(MPI_Message) :: message
  type(MPI_Status) :: status
  type(MPI_Request) :: request
#else
#if defined(MPI)
  use mpi
  implicit none
#else
  implicit none
  include 'mpif.h'
#endif
  integer :: message, status(MPI_STATUS_SIZE), request
#endif
  integer :: rank, ierror
  logical :: found
  real(8) :: sent(4), got(4)
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  sent = 1
  call MPI_Barrier(MPI_COMM_WORLD, ierror)
  call MPI_Pcontrol(0)
  call MPI_Barrier(MPI_COMM_WORLD, ierror)
  call MPI_Pcontrol(1)
  call MPI_Barrier(MPI_COMM_WORLD, ierror)
  call MPI_Isend(sent, 4, MPI_DOUBLE_PRECISION, rank, 7, MPI_COMM_WORLD, request, ierror)
  call MPI_Mprobe(MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, message, status, ierror)
  call MPI_Mrecv(got, 4, MPI_DOUBLE_PRECISION, message, status, ierror)
  call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
  if (got(4) /= 1) error stop 3
  call MPI_Isend(sent, 4, MPI_DOUBLE_PRECISION, rank, 8, MPI_COMM_WORLD, request, ierror)
  found = .false.
  do while (.not. found)
    call MPI_Improbe(rank, 8, MPI_COMM_WORLD, found, message, MPI_STATUS_IGNORE, ierror)
  end do
  call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
  call MPI_Imrecv(got, 4, MPI_DOUBLE_PRECISION, message, request, ierror)
  call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
  call MPI_Finalize(ierror)
end program matched
