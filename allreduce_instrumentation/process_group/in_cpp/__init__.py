"""The process group in C++: see ``csrc/group.h``. ``which_group`` says whether this process has it."""
