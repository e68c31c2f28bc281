/* Stands in for `python` in tests: asks the warm parent (server.py) to run a program, and ends as it does.
 *
 * It sends its arguments, environment, folder, and standard streams, passes signals on, and takes over the exit
 * status. When it is killed, the parent kills the program. Without a parent it becomes the Python it stands in for.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

extern char **environ;

static int parent = -1;

static void pass_on(int signal_number) {
    int saved = errno;
    unsigned char byte = (unsigned char)signal_number;
    if (write(parent, &byte, 1) < 0) {
        /* the program has ended, and this one is about to */
    }
    errno = saved;
}

static void become_python(char **arguments) {
    arguments[0] = (char *)PYTHON;
    execv(PYTHON, arguments);
    perror(PYTHON);
    _exit(127);
}

static char *joined(char **arguments, size_t *length) {
    char *folder = getcwd(NULL, 0), *text = NULL;
    int number = 0;
    while (arguments[number + 1]) number++;
    FILE *out = open_memstream(&text, length);
    fprintf(out, "%s%c%d%c", folder ? folder : "/", 0, number, 0);
    for (char **each = arguments + 1; *each; each++) fprintf(out, "%s%c", *each, 0);
    for (char **each = environ; *each; each++) fprintf(out, "%s%c", *each, 0);
    fclose(out);
    free(folder);
    return text;
}

static int send_all(const char *text, size_t length) {
    while (length > 0) {
        ssize_t sent = write(parent, text, length);
        if (sent < 0 && errno != EINTR) return -1;
        if (sent > 0) text += sent, length -= (size_t)sent;
    }
    return 0;
}

static int send_request(char **arguments) {
    size_t length;
    char *text = joined(arguments, &length);
    int streams[3] = {0, 1, 2};
    union { char room[CMSG_SPACE(sizeof streams)]; struct cmsghdr header; } control = {{0}};
    struct iovec part = {&length, sizeof length};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET, rights->cmsg_type = SCM_RIGHTS, rights->cmsg_len = CMSG_LEN(sizeof streams);
    memcpy(CMSG_DATA(rights), streams, sizeof streams);
    int failed = sendmsg(parent, &message, 0) < 0 || send_all(text, length) < 0;
    free(text);
    return failed ? -1 : 0;
}

static int status_of_program(void) {
    int status;
    for (;;) {
        ssize_t got = recv(parent, &status, sizeof status, MSG_WAITALL);
        if (got == (ssize_t)sizeof status) return status;
        if (got < 0 && errno == EINTR) continue;
        fprintf(stderr, "the warm parent of the tests has ended\n");
        return 127 << 8;
    }
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
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, SOCKET, sizeof address.sun_path - 1);
    parent = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (parent < 0 || connect(parent, (struct sockaddr *)&address, sizeof address) < 0) become_python(arguments);
    signal(SIGPIPE, SIG_IGN);
    /* Also what is ignored here: the program may have a handler for it all the same. */
    int passed[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
    for (size_t each = 0; each < sizeof passed / sizeof *passed; each++) signal(passed[each], pass_on);
    if (send_request(arguments) < 0) become_python(arguments);
    end_as(status_of_program());
}
