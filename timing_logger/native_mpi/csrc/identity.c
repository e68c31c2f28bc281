/* Which run this process is of, and which world of it: what the environment says, as timing_logger/process/this_process.py
   reads it. No rank asks another one, as the library may not be in all of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launchers.h" /* made of the table of launchers */
#include "native.h"

static char launch[256], started[256], run[512], world_name[256];

static const char *variable(const char *name)
{
    const char *found = getenv(name);
    return found == NULL ? "" : found;
}

/* Whether MPI itself started this process: then its ranks are those of another world. */
static bool is_spawned(void)
{
    MPI_Comm parent = NO_COMM;
    return real.Comm_get_parent((word) &parent) == MPI_SUCCESS && parent != NO_COMM;
}

static bool is_number(const char *text) { return *text && text[strspn(text, "0123456789")] == 0; }

/* The namespace of Open MPI is "prterun-host-1234@2", or 32 bits in version 4: the last part is the world's number. */
static void read_namespace(const char *namespace)
{
    const char *at = strrchr(namespace, '@');
    unsigned long bits = strtoul(namespace, NULL, 10);
    if (is_number(namespace)) {
        snprintf(started, sizeof started, "openmpi-%lu", bits >> 16);
        snprintf(world_name, sizeof world_name, "%lu", bits & 0xffff);
    } else if (at != NULL) {
        snprintf(started, sizeof started, "%.*s", (int) (at - namespace), namespace);
        snprintf(world_name, sizeof world_name, "%s", at + 1);
    } else {
        snprintf(started, sizeof started, "%s", namespace);
    }
}

void read_identity(void)
{
    snprintf(launch, sizeof launch, "%s", variable("TIMING_LOGGER_RUN_ID"));
    READ_STARTED
    snprintf(run, sizeof run, "%s%s%s", launch, launch[0] && started[0] ? "/" : "", started);
    if (!is_spawned())
        world_name[0] = 0;
    else if (world_name[0] == 0)
        snprintf(world_name, sizeof world_name, "spawned");
}

const char *run_id(void) { return run; }

const char *launch_id(void) { return launch; }

const char *world(void) { return world_name; }
