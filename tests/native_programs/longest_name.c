/* Prints for how long a name lines have room, once the ring has one name too many, which is the longest. */
#include <stdio.h>
#include <string.h>

#include "csv_lines.h"

int main(void)
{
    static char longest[5000];
    static Ring ring;
    Names names;
    Cell cell = {"short", 5};
    if (names_open(&names) || ring_open(&ring, NULL, 1))
        return 1;
    while (names_add(&names, &ring, cell.text, cell.n_bytes, cell, cell) >= 0)
        ;
    memset(longest, 'x', sizeof longest);
    cell = (Cell){longest, sizeof longest};
    if (names_add(&names, &ring, longest, sizeof longest, cell, cell) >= 0)
        return 1;
    printf("%zu\n", (csv_most_bytes(&names, 1) - CSV_BYTES_BESIDE_CELLS) / N_NAMES);
    return 0;
}
