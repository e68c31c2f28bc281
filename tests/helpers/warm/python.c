/* Stands in for `python` in tests: asks the warm parent (parent.py) to run a program, and ends as it does.
 *
 * It hands over its standard streams; all else that the program is to have, the parent reads of this process. It
 * passes signals on, and takes over the exit status. When it is killed, the parent kills the program. Where there is
 * no parent, or what is asked for takes a new interpreter, it becomes the Python that it stands in for.
 *
 * It finds the parent's socket, and a link to that Python, in the folder in which it lies.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { STREAMS = 3, HIGHEST_DESCRIPTOR_LOOKED_AT = 64 };

static const int PASSED_ON[] = {SIGHUP, SIGINT, SIGQUIT, SIGABRT, SIGALRM, SIGTERM, SIGUSR1, SIGUSR2};
enum { N_PASSED_ON = sizeof PASSED_ON / sizeof *PASSED_ON };

static char folder[PATH_MAX];
static int parent = -1;

static void pass_on(int signal_number) {
    int saved = errno;
    unsigned char byte = (unsigned char)signal_number;
    send(parent, &byte, 1, MSG_NOSIGNAL); /* if it fails, the program has ended, and this one is about to */
    errno = saved;
}

static void become_python(char **arguments) {
    char link[PATH_MAX + 16], python[PATH_MAX] = "";
    snprintf(link, sizeof link, "%s/interpreter", folder);
    if (readlink(link, python, sizeof python - 1) > 0) {
        arguments[0] = python;
        execv(python, arguments);
    }
    perror(link);
    _exit(127);
}

/* Whether 0, 1 and 2 are all that is open: the program gets those. */
static int has_only_streams(void) {
    for (int each = 0; each < HIGHEST_DESCRIPTOR_LOOKED_AT; each++)
        if ((fcntl(each, F_GETFD) >= 0) != (each < STREAMS)) return 0;
    return 1;
}

static int connected(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int here = open(folder, O_PATH | O_CLOEXEC), made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    /* however long the folder's path is */
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/socket", here);
    int failed = connect(made, (struct sockaddr *)&address, sizeof address);
    close(here);
    return failed ? -1 : made;
}

static int hand_over_streams(void) {
    int streams[STREAMS] = {0, 1, 2};
    char byte = 0;
    union { char room[CMSG_SPACE(sizeof streams)]; struct cmsghdr header; } control = {{0}};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET, rights->cmsg_type = SCM_RIGHTS, rights->cmsg_len = CMSG_LEN(sizeof streams);
    memcpy(CMSG_DATA(rights), streams, sizeof streams);
    return sendmsg(parent, &message, MSG_NOSIGNAL) == 1;
}

static int the_parent_runs_it(void) {
    char answer = 0;
    parent = connected();
    return parent >= 0 && hand_over_streams() && recv(parent, &answer, 1, 0) == 1 && answer == 'y';
}

static int status_of_program(void) {
    int status;
    ssize_t got;
    do got = recv(parent, &status, sizeof status, MSG_WAITALL);
    while (got < 0 && errno == EINTR);
    if (got == (ssize_t)sizeof status) return status;
    fprintf(stderr, "the warm parent of the tests has ended\n");
    return 127 << 8;
}

static void end_as(int status) {
    if (!WIFSIGNALED(status)) _exit(WEXITSTATUS(status));
    struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    signal(WTERMSIG(status), SIG_DFL);
    raise(WTERMSIG(status));
    _exit(128 + WTERMSIG(status));
}

int main(int count, char **arguments) {
    (void)count;
    if (readlink("/proc/self/exe", folder, sizeof folder - 1) > 0) *strrchr(folder, '/') = 0;
    sigset_t passed_on, before;
    sigemptyset(&passed_on);
    for (int each = 0; each < N_PASSED_ON; each++) sigaddset(&passed_on, PASSED_ON[each]);
    sigprocmask(SIG_BLOCK, &passed_on, &before); /* until it is clear who is to get them */
    if (!has_only_streams() || !the_parent_runs_it()) {
        sigprocmask(SIG_SETMASK, &before, NULL);
        become_python(arguments);
    }
    /* Also what is ignored here, as by the program: that may have a handler for it all the same. */
    for (int each = 0; each < N_PASSED_ON; each++) signal(PASSED_ON[each], pass_on);
    sigprocmask(SIG_SETMASK, &before, NULL);
    end_as(status_of_program());
}
